"""Players as separate processes that share a simulated radio medium over loopback sockets (thesis, chapter 5).

The names are imported when first used: a player's process needs none of them, and starts in a third of the time.
"""

from typing import TYPE_CHECKING

from weakfeedback.lazy import importing

if TYPE_CHECKING:
    from weakfeedback.apps.radio.air import Air as Air
    from weakfeedback.apps.radio.air import PlayerLost as PlayerLost
    from weakfeedback.apps.radio.run import RadioError as RadioError
    from weakfeedback.apps.radio.run import RadioReport as RadioReport
    from weakfeedback.apps.radio.run import play_radio as play_radio
    from weakfeedback.apps.radio.wire import BadFrame as BadFrame
    from weakfeedback.apps.radio.wire import HungUp as HungUp

# by module, its names; for type checkers the same above, which a test compares
_HOMES = {
    "air": "Air PlayerLost",
    "run": "RadioError RadioReport play_radio",
    "wire": "BadFrame HungUp",
}
__getattr__, __dir__ = importing(__name__, _HOMES)
__all__ = __dir__()
