"""Players who share arms and cannot talk (thesis, chapter 5)."""

from weakfeedback.multiplayer.dlc import Dlc
from weakfeedback.multiplayer.dlc_lix import DlcLix
from weakfeedback.multiplayer.dpe1 import Dpe1
from weakfeedback.multiplayer.kl_lucb import KlLucb, TopArms, top_arms
from weakfeedback.multiplayer.musical_chairs import MusicalChairs
from weakfeedback.multiplayer.problem import MultiplayerProblem
from weakfeedback.multiplayer.sic_mmab import SicMmab

__all__ = [
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
