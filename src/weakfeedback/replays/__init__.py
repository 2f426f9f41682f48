"""Would it have saved money? A log of the answers of several models, played again without labels."""

from weakfeedback.replays.run import Replay, Way, replay

__all__ = ["Replay", "Way", "replay"]
