"""Players that share arms and cannot communicate (thesis, chapter 5)."""

from weakfeedback.multiplayer.kl_lucb import KlLucb, TopArms, top_arms
from weakfeedback.multiplayer.policies.claims import Claims
from weakfeedback.multiplayer.policies.dlc import Dlc
from weakfeedback.multiplayer.policies.dlc_lix import DlcLix
from weakfeedback.multiplayer.policies.dpe1 import Dpe1
from weakfeedback.multiplayer.policies.musical_chairs import MusicalChairs
from weakfeedback.multiplayer.policies.sic_mmab import SicMmab
from weakfeedback.multiplayer.problem import MultiplayerProblem

__all__ = [
    "Claims",
    "Dlc",
    "DlcLix",
    "Dpe1",
    "KlLucb",
    "MultiplayerProblem",
    "MusicalChairs",
    "SicMmab",
    "TopArms",
    "top_arms",
]
