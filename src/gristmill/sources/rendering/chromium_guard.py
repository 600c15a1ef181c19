"""Runs one Chromium, watches its memory, and leaves nothing of it behind.

Run as a plain script, `python -I -S chromium_guard.py MAX_BYTES FOLDER READ_FD WRITE_FD COMMAND …`, by the process that renders a
page. It imports only a few modules of the standard library, and starts within milliseconds.

    its standard input ends         the renderer is done, or was killed, also by kill -9: everything is killed
    Chromium ends                   everything that it started is killed
    more memory than MAX_BYTES      everything is killed
    SIGTERM, SIGINT                 everything is killed

It adopts the processes that Chromium's processes leave behind, so it finds all of them, and then removes FOLDER, which holds the
profile. If the guard itself is killed, the kernel kills Chromium, whose other processes end when they lose it; FOLDER stays.

Before Chromium starts, it loses its network, where the kernel allows that: as root, or where users may have namespaces. Everywhere
else its flags keep it from the network (`chromium.py`). The exit code is Chromium's, or `OUT_OF_MEMORY`.
"""

import contextlib
import ctypes
import os
import resource
import select
import shutil
import signal
import sys
import time

OUT_OF_MEMORY = 77

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_CLONE_NEWNET = 0x40000000
_CLONE_NEWUSER = 0x10000000
_INTERVAL = 0.25  # seconds between two looks at the memory
_NICENESS = 5  # pages are background work, as reading documents is
_MAX_FILE = 256 << 20  # bytes of any file that Chromium writes


def main(arguments: list[str]) -> int:
    """Run the command, and clean up after it."""
    max_bytes, folder, read_fd, write_fd, *command = arguments
    parent = os.getppid()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _ignore)  # the pipe below ends the loop
    wake_up, wake_up_end = os.pipe()
    os.set_blocking(wake_up_end, False)
    signal.set_wakeup_fd(wake_up_end)
    libc = ctypes.CDLL(None, use_errno=True)
    if sys.platform == "linux":
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        _leave_network(libc)
    try:
        pid = _start(libc, command, int(read_fd), int(write_fd))
        os.close(int(read_fd))
        os.close(int(write_fd))
        return _watch(pid, parent, int(max_bytes), wake_up)
    finally:
        _kill_descendants()
        shutil.rmtree(folder, ignore_errors=True)


def _ignore(_number: int, _frame: object) -> None:
    pass


def _leave_network(libc: ctypes.CDLL) -> None:
    """Move into a network namespace without any interface."""
    if libc.unshare(_CLONE_NEWNET) == 0:
        return
    uid, gid = os.getuid(), os.getgid()
    if libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET) == 0:
        # Chromium's own sandbox needs users that exist in this namespace.
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{uid} {uid} 1"),
            ("gid_map", f"{gid} {gid} 1"),
        ):
            with contextlib.suppress(OSError), open(f"/proc/self/{name}", "w") as file:  # noqa: PTH123
                file.write(text)


def _start(libc: ctypes.CDLL, command: list[str], read_fd: int, write_fd: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        if sys.platform == "linux":
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, _NICENESS)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (_MAX_FILE, _MAX_FILE))
        # DevTools are spoken on the descriptors 3 and 4, which may be in use for something else.
        first, second = os.dup(read_fd), os.dup(write_fd)
        while min(first, second) <= 4:
            first, second = os.dup(first), os.dup(second)
        os.dup2(first, 3, inheritable=True)
        os.dup2(second, 4, inheritable=True)
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        os.dup2(nothing, 1)
        os.closerange(5, 256)
        os.execvp(command[0], command)  # noqa: S606  -- the program that the administrator installed
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(127)


def _watch(pid: int, parent: int, max_bytes: int, wake_up: int) -> int:
    """Wait until Chromium ends or has to; its exit code."""
    while True:
        ready, _, _ = select.select([0, wake_up], [], [], _INTERVAL)
        if wake_up in ready or (0 in ready and not os.read(0, 4096)) or os.getppid() != parent:
            return 0
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == pid:
                    return abs(os.waitstatus_to_exitcode(ended[1]))
        if sum(map(_own_bytes, _descendants())) > max_bytes:
            return OUT_OF_MEMORY


def _descendants() -> list[int]:
    """All processes below this one."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc") if sys.platform == "linux" else ():  # noqa: PTH208
        if name.isdecimal() and (parent := _parent(name)):
            children.setdefault(parent, []).append(int(name))
    descendants, waiting = list[int](), [os.getpid()]
    while waiting:
        below = children.get(waiting.pop(), [])
        descendants += below
        waiting += below
    return descendants


def _parent(pid: str) -> int:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
        return int(file.read().rpartition(b")")[2].split()[1])
    return 0


def _own_bytes(pid: int) -> int:
    """The memory that a process shares with no file."""
    with contextlib.suppress(OSError, IndexError), open(f"/proc/{pid}/statm", "rb") as file:  # noqa: PTH123
        fields = file.read().split()
        return (int(fields[1]) - int(fields[2])) * resource.getpagesize()
    return 0


def _kill_descendants() -> None:
    """Kill all processes below this one, and wait for them. Whatever starts meanwhile is killed by the next look."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        for pid in _descendants():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.01)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
