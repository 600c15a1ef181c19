"""`gristmill serve` and `gristmill worker`: run until SIGINT or SIGTERM."""

import asyncio
import signal
import socket
from collections.abc import Callable, Generator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import replace

import uvicorn
from fastapi import FastAPI

from gristmill import app, identity, niceness
from gristmill.cli import serve_lock
from gristmill.cli.open_gristmill import open_gristmill
from gristmill.errors import SetupError
from gristmill.server import api, mcp
from gristmill.server.api.caller import is_loopback
from gristmill.server.http_protocol import BoundedHttpProtocol
from gristmill.settings import Settings


async def serve(settings: Settings, announce: Callable[[str], None]) -> None:
    """Run the server and a worker until SIGINT or SIGTERM; `announce` is called with the address once it is ready."""
    bind_address = settings.host, settings.port
    with serve_lock.acquire(settings.data_dir) as claim, _listen(*bind_address) as listener:
        async with open_gristmill(settings, work=True) as mill, AsyncExitStack() as stack:
            await _require_admin_key(mill)
            await stack.enter_async_context(mcp.mount(mill.api))
            server = _create_server(mill.api)
            stop = _stop_on_signals()
            serving = asyncio.create_task(server.serve(sockets=[listener]), name="http")
            address = f"http://{_url_host(settings.host)}:{listener.getsockname()[1]}"
            await server.ready.wait()
            niceness.favour_event_loop()
            claim.announce_url(address)
            announce(address)
            await _wait_until_stopped(stop, mill.worker, serving)
            mill.broadcaster.close()  # otherwise event streams would stay open until their clients close them
            server.should_exit = True
            await serving


async def work(settings: Settings, announce: Callable[[str], None]) -> None:
    """Run a worker until SIGINT or SIGTERM; `announce` is called with the address of its probes, or an empty string if it
    has no port, once it runs."""
    with ExitStack() as bound:
        listener = None
        if settings.worker_port is not None:
            listener = bound.enter_context(_listen(settings.worker_host, settings.worker_port))
        async with open_gristmill(settings, work=True) as mill:
            stop = _stop_on_signals()
            if listener is None:
                announce("")
                await _wait_until_stopped(stop, mill.worker)
                return
            probe_settings = settings.model_copy(update={"host": settings.worker_host})
            server = _create_server(api.create_probes(replace(mill.context, settings=probe_settings)))
            serving = asyncio.create_task(server.serve(sockets=[listener]), name="probes")
            await server.ready.wait()
            announce(f"http://{_url_host(settings.worker_host)}:{listener.getsockname()[1]}")
            await _wait_until_stopped(stop, mill.worker, serving)
            server.should_exit = True
            await serving


def _create_server(application: FastAPI) -> "Server":
    return Server(
        uvicorn.Config(
            application,
            http=BoundedHttpProtocol,
            ws="none",
            log_config=None,
            lifespan="off",
            access_log=False,
            timeout_graceful_shutdown=5,
        )
    )


class Server(uvicorn.Server):
    """A uvicorn server with an event for readiness. It does not handle signals: uvicorn would raise them again before our
    clean-up."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and set `ready`."""
        await super().startup(sockets)
        self.ready.set()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Handle no signals."""
        yield


@contextmanager
def _listen(host: str, port: int) -> Generator[socket.socket]:
    """Bind before anything slow starts, so that a port in use is reported at once."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except OSError as error:
            raise SetupError(
                f"Port {port} on {host} is not available: {error.strerror}. "
                "Choose another with --port, GRISTMILL_PORT or, for a worker, GRISTMILL_WORKER_PORT.",
                code="port_taken",
            ) from error
        yield listener


def _stop_on_signals() -> asyncio.Event:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()

    def handle_signal() -> None:
        if stop.is_set():
            # Second signal: restore the default action, so that a third one ends the process even if something hangs.
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, handle_signal)
    return stop


async def _wait_until_stopped(stop: asyncio.Event, *tasks_to_watch: asyncio.Task[None] | None) -> None:
    """Wait for the stop event; if one of the tasks ends first, raise its exception."""
    waiting = asyncio.create_task(stop.wait())
    tasks = [task for task in tasks_to_watch if task is not None]
    await asyncio.wait([waiting, *tasks], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    for task in tasks:
        if task.done():
            task.result()


async def _require_admin_key(mill: app.Gristmill) -> None:
    """Refuse to serve beyond loopback without an admin key."""
    if is_loopback(mill.settings.host):
        return
    async with mill.db.connection() as tx:
        if not await identity.has_admin_key(tx):
            raise SetupError(
                f"The server would listen on {mill.settings.host}, which is not a loopback address, without an admin API key. "
                "Create one first: gristmill keys create NAME --role admin",
                code="unprotected_address",
            )


def _url_host(host: str) -> str:
    return f"[{host}]" if ":" in host else host
