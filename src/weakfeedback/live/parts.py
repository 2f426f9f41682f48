"""What the parts of a live object may use of the whole: for type checkers, which look at each part alone."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weakfeedback.live.live import Live
    from weakfeedback.live.rounds import Rounds

    class Part(Live, Rounds):
        """A part of a live object that plays rounds."""

else:
    Part = object
