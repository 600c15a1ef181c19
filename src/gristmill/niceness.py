"""CPU priorities: ingestion yields to requests.

Linux has a scheduling class and a niceness per thread. On other systems, or without permission, nothing changes.
"""

import contextlib
import gc
import os
import sys
import threading

_NICENESS = 5  # a third of the CPU share of a thread with normal niceness; all of it on an idle machine
_SWITCH_INTERVAL = (
    0.001  # seconds until a computing thread yields to the event loop; Python's default is 5 ms
)


def lower_thread_priority() -> None:
    """Lower the priority of the current thread."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)


def yield_to_others() -> None:
    """Schedule this process, its threads and the processes that it starts as batch work: they get their share of the CPU, but
    never interrupt whoever runs, and are interrupted by whoever wakes up. So a request waits for no document, and a busy
    machine still indexes."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def favour_event_loop() -> None:
    """Keep the event loop responsive, called once a server has started: threads yield to it sooner, and garbage
    collection skips everything loaded so far, which would block it for a tenth of a second."""
    sys.setswitchinterval(_SWITCH_INTERVAL)
    gc.collect()
    gc.freeze()
