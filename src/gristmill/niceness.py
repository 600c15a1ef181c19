"""Who waits for whom on the processor: what documents cost steps back behind who is waiting for an answer.

On Linux a thread has a priority of its own. Elsewhere, or where it is not allowed, nothing is changed.
"""

import contextlib
import gc
import os
import sys
import threading

_NICENESS = (
    5  # of nice: a third of the share of who did not step back, and all of it when nobody else wants any
)
_SWITCH_INTERVAL = (
    0.001  # seconds: how long Python lets a thread compute while the loop wants to go on; 5 ms by default
)


def lower_thread_priority() -> None:
    """From now on this thread computes when nobody waits."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)


def favour_event_loop() -> None:
    """For a process that serves, once it is up: hand over to the loop soon, and don't search all that was loaded for garbage each
    time, which would stop it for a tenth of a second."""
    sys.setswitchinterval(_SWITCH_INTERVAL)
    gc.collect()
    gc.freeze()
