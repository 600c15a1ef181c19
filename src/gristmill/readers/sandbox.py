"""What a reader's child process gives up before it opens any document.

    always      no core files, few open files, limited file sizes; no sockets and no processes from Python
    on Linux    it dies with its parent, gains no privileges and yields the CPU to others; no network at all where it
                may have a namespace of its own (as root, or where unprivileged namespaces are allowed)
    elsewhere   native code could still open a socket; none of the libraries in use does

The limits of memory and CPU are set again for each document, the CPU limit also at each sign of progress.
"""

import contextlib
import ctypes
import os
import resource
import signal
import sys
from typing import Any

_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS = 38
_CLONE_NEWNET = 0x40000000
_CLONE_NEWUSER = 0x10000000
_NICENESS = 5  # about a third of the CPU share of a process that serves people

_FORBIDDEN_EVENTS = frozenset(
    (
        "socket.__new__",
        "socket.connect",
        "socket.bind",
        "socket.getaddrinfo",
        "socket.gethostbyname",
        "socket.gethostbyaddr",
        "socket.sendto",
        "subprocess.Popen",
        "os.system",
        "os.exec",
        "os.fork",
        "os.forkpty",
        "os.posix_spawn",
        "os.kill",
        "os.killpg",
    )
)


_is_locked_down = False


def lock_down(parent: int) -> bool:
    """Give up what reading doesn't need; returns whether the kernel itself cut off the network."""
    global _is_locked_down
    _is_locked_down = True
    is_isolated = _isolate(parent) if sys.platform == "linux" else False
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(ValueError, OSError):  # the hard limit is lower already
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
    sys.addaudithook(_refuse_forbidden_events)
    return is_isolated


def limit_memory(max_bytes: int) -> None:
    """Let allocations fail once the process has `max_bytes` of its own."""
    _set_soft_limit(resource.RLIMIT_DATA, max_bytes)


def limit_file_size(max_bytes: int) -> None:
    """Let no file grow beyond `max_bytes`."""
    _set_soft_limit(resource.RLIMIT_FSIZE, max_bytes)


def limit_cpu(seconds: int) -> None:
    """Let the kernel kill the process after `seconds` more of CPU time."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    _set_soft_limit(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime) + 1 + seconds)


def _set_soft_limit(kind: int, limit: int) -> None:
    if not _is_locked_down:  # a process that does other things too: the limit would kill it some time later
        return
    _, hard = resource.getrlimit(kind)
    with contextlib.suppress(ValueError, OSError):  # macOS refuses some; the parent's time limit still holds
        resource.setrlimit(kind, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


def resident_bytes() -> int:
    """The memory that this process has now."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123  -- Path would import more
            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


def _refuse_forbidden_events(event: str, _arguments: tuple[Any, ...]) -> None:
    if event in _FORBIDDEN_EVENTS:
        raise PermissionError(f"{event} is not allowed in a reader")


def _isolate(parent: int) -> bool:
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, _NICENESS)
    libc = ctypes.CDLL(None, use_errno=True)
    # Any user may have a network of its own inside a user namespace, where these are allowed.
    is_isolated = libc.unshare(_CLONE_NEWNET) == 0 or libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET) == 0
    # After the namespace: a change of credentials would undo this.
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it ended before the call above
        os._exit(1)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    return is_isolated
