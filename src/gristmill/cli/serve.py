"""`gristmill serve` and `gristmill worker`: run until a signal says stop."""

import asyncio
import signal
import socket
from collections.abc import Callable, Generator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import replace

import uvicorn
from fastapi import FastAPI

from gristmill import app, keys, priority
from gristmill.cli import presence
from gristmill.doors import api, mcp
from gristmill.doors.api.caller import is_loopback
from gristmill.errors import SetupError
from gristmill.settings import Settings


async def serve(settings: Settings, tell: Callable[[str], None]) -> None:
    """Serve the API with a worker beside it until SIGINT or SIGTERM; `tell` gets the address once it is ready."""
    place = settings.host, settings.port
    with presence.claim(settings.data_dir) as claim, _listen(*place) as listening:
        async with app.running(settings, work=True) as mill, AsyncExitStack() as stack:
            await _protected(mill)
            await stack.enter_async_context(mcp.mounted(mill.api))
            server = _server(mill.api)
            stop = _on_signals()
            serving = asyncio.create_task(server.serve(sockets=[listening]), name="http")
            address = f"http://{_name(settings.host)}:{listening.getsockname()[1]}"
            await server.ready.wait()
            priority.answer_quickly()
            claim.announce(address)
            tell(address)
            await _first(stop, mill.worker, serving)
            mill.broadcaster.close()  # streams would go on as long as their clients do
            server.should_exit = True
            await serving


async def work(settings: Settings, tell: Callable[[str], None]) -> None:
    """Run jobs until SIGINT or SIGTERM; `tell` gets the address of its probes, if it has a port, once it works."""
    with ExitStack() as bound:
        listening = None
        if settings.worker_port is not None:
            listening = bound.enter_context(_listen(settings.worker_host, settings.worker_port))
        async with app.running(settings, work=True) as mill:
            stop = _on_signals()
            if listening is None:
                tell("")
                await _first(stop, mill.worker)
                return
            here = settings.model_copy(update={"host": settings.worker_host})
            server = _server(api.create_probes(replace(mill.context, settings=here)))
            serving = asyncio.create_task(server.serve(sockets=[listening]), name="probes")
            await server.ready.wait()
            tell(f"http://{_name(settings.worker_host)}:{listening.getsockname()[1]}")
            await _first(stop, mill.worker, serving)
            server.should_exit = True
            await serving


def _server(serves: FastAPI) -> "Server":
    return Server(
        uvicorn.Config(serves, log_config=None, lifespan="off", access_log=False, timeout_graceful_shutdown=5)
    )


class Server(uvicorn.Server):
    """Tells when it is ready, and leaves signals to us: uvicorn would raise them again before we have cleaned up."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and say so."""
        await super().startup(sockets)
        self.ready.set()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Take none."""
        yield


@contextmanager
def _listen(host: str, port: int) -> Generator[socket.socket]:
    """Bind before anything slow is started: a port that is taken is told at once."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, port))
        except OSError as error:
            raise SetupError(
                f"Port {port} on {host} can't be bound: {error.strerror}. "
                "Choose another with --port, GRISTMILL_PORT or, for a worker, GRISTMILL_WORKER_PORT.",
                code="port_taken",
            ) from error
        yield listening


def _on_signals() -> asyncio.Event:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()

    def told() -> None:
        if stop.is_set():
            # Asked twice: the default action from here on, so that a third time ends it whatever hangs.
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, told)
    return stop


async def _first(stop: asyncio.Event, *others: asyncio.Task[None] | None) -> None:
    """Return when told to stop; raise what ended one of the others."""
    waiting = asyncio.create_task(stop.wait())
    tasks = [task for task in others if task is not None]
    await asyncio.wait([waiting, *tasks], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    for task in tasks:
        if task.done():
            task.result()


async def _protected(mill: app.Gristmill) -> None:
    """Nobody serves the world without a key."""
    if is_loopback(mill.settings.host):
        return
    async with mill.db.connection() as tx:
        if not await keys.is_protected(tx):
            raise SetupError(
                f"host {mill.settings.host} is not a loopback address, and there is no admin's API key that would "
                "protect it. Make one first: gristmill keys create NAME --role admin",
                code="unprotected_address",
            )


def _name(host: str) -> str:
    return f"[{host}]" if ":" in host else host
