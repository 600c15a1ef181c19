"""Ports for programs that are told theirs, and for servers that are started again at the same one.

A port that the system chooses (port 0) is free only until another test asks for one. These are below the range that systems choose
from, so only another caller of this function could take it, and it draws from thousands.
"""

import secrets
import socket

_FIRST, _COUNT = 20_000, 12_000  # Linux chooses from 32768 on, others from 49152
_TRIES = 100
_used_ports = set[int]()  # by this process


def free_port() -> int:
    """A port that is free now, and stays so for whoever binds it later."""
    for _ in range(_TRIES):
        port = _FIRST + secrets.randbelow(_COUNT)  # `random` draws the same numbers in every pytest worker
        if port in _used_ports:
            continue
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        _used_ports.add(port)
        return port
    raise AssertionError("no port is free")
