"""Players as separate processes that share a simulated radio medium over loopback sockets (thesis, chapter 5)."""

from weakfeedback.apps.radio.air import Air, PlayerLost
from weakfeedback.apps.radio.run import RadioError, RadioReport, play_radio
from weakfeedback.apps.radio.wire import BadFrame, HungUp

__all__ = ["Air", "BadFrame", "HungUp", "PlayerLost", "RadioError", "RadioReport", "play_radio"]
