"""Players that share arms and cannot communicate (thesis, chapter 5)."""

from typing import TYPE_CHECKING

from weakfeedback.settings.setting import exporting

if TYPE_CHECKING:
    from weakfeedback.multiplayer.kl_lucb import KlLucb as KlLucb
    from weakfeedback.multiplayer.kl_lucb import TopArms as TopArms
    from weakfeedback.multiplayer.kl_lucb import top_arms as top_arms
    from weakfeedback.multiplayer.policies.claims import Claims as Claims
    from weakfeedback.multiplayer.policies.dlc import Dlc as Dlc
    from weakfeedback.multiplayer.policies.dlc_lix import DlcLix as DlcLix
    from weakfeedback.multiplayer.policies.dpe1 import Dpe1 as Dpe1
    from weakfeedback.multiplayer.policies.match import Match as Match
    from weakfeedback.multiplayer.policies.musical_chairs import MusicalChairs as MusicalChairs
    from weakfeedback.multiplayer.policies.selfish import Selfish as Selfish
    from weakfeedback.multiplayer.policies.sic_mmab import SicMmab as SicMmab
    from weakfeedback.multiplayer.problem import MultiplayerProblem as MultiplayerProblem

__getattr__, __dir__ = exporting(
    __name__, {"kl_lucb": "KlLucb TopArms top_arms", "problem": "MultiplayerProblem"}
)
