"""`gristmill serve` and `gristmill worker`: run until a signal says stop."""

import asyncio
import signal
import socket
from collections.abc import Callable, Generator
from contextlib import AsyncExitStack, contextmanager

import uvicorn

from gristmill import app, keys, priority
from gristmill.cli import presence
from gristmill.doors import mcp
from gristmill.doors.api.caller import is_loopback
from gristmill.errors import SetupError
from gristmill.settings import Settings


async def serve(settings: Settings, tell: Callable[[str], None]) -> None:
    """Serve the API with a worker beside it until SIGINT or SIGTERM; `tell` gets the address once it is ready."""
    with presence.claim(settings.data_dir) as claim, _listen(settings) as listening:
        async with app.running(settings, work=True) as mill, AsyncExitStack() as stack:
            await _protected(mill)
            await stack.enter_async_context(mcp.mounted(mill.api))
            config = uvicorn.Config(
                mill.api, log_config=None, lifespan="off", access_log=False, timeout_graceful_shutdown=5
            )
            server = Server(config)
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
    """Run jobs until SIGINT or SIGTERM."""
    async with app.running(settings, work=True) as mill:
        stop = _on_signals()
        tell("working")
        await _first(stop, mill.worker)


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
def _listen(settings: Settings) -> Generator[socket.socket]:
    """Bind before anything slow is started: a port that is taken is told at once."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((settings.host, settings.port))
        except OSError as error:
            raise SetupError(
                f"Port {settings.port} on {settings.host} can't be bound: {error.strerror}. "
                "Choose another with --port or GRISTMILL_PORT.",
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
