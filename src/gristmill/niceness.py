"""CPU priorities: ingestion yields to requests.

Linux has a niceness per thread. On other systems, or without permission, nothing changes.
"""

import contextlib
import gc
import os
import sys
import threading
from pathlib import Path

_NICENESS = 5  # a third of the CPU share of a thread with normal niceness; all of it on an idle machine
_SWITCH_INTERVAL = (
    0.001  # seconds until a computing thread yields to the event loop; Python's default is 5 ms
)


def lower_thread_priority() -> None:
    """Lower the priority of the current thread."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)


def lower_process_priority() -> None:
    """Lower the priority of this process, of its threads and of the processes that it starts; called once it has a session
    of its own. Where Linux shares the CPU among sessions first, a thread's niceness only counts within its session."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, _NICENESS)
        with contextlib.suppress(OSError):
            Path("/proc/self/autogroup").write_text(f"{_NICENESS}\n", encoding="ascii")


def favour_event_loop() -> None:
    """Keep the event loop responsive, called once a server has started: threads yield to it sooner, and garbage
    collection skips everything loaded so far, which would block it for a tenth of a second."""
    sys.setswitchinterval(_SWITCH_INTERVAL)
    gc.collect()
    gc.freeze()
