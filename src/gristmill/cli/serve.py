"""`gristmill serve` and `gristmill worker`: run until SIGINT, SIGTERM or SIGHUP."""

import asyncio
import functools
import gc
import os
import socket
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import replace

import uvicorn
from fastapi import FastAPI

from gristmill import app, clock, identity, niceness
from gristmill.cli import serve_lock
from gristmill.cli.common import run_async
from gristmill.cli.open_gristmill import open_gristmill
from gristmill.cli.output import print_error
from gristmill.cli.supervisor import Role, Supervisor, stop_signals
from gristmill.errors import GristmillError, SetupError
from gristmill.server import api, mcp
from gristmill.server.api.caller import is_loopback
from gristmill.server.http_protocol import BoundedHttpProtocol
from gristmill.settings import Settings
from gristmill.telemetry import logs, pipeline_metrics, recent_log, shared_metrics

_BACKLOG = 2048  # connections that wait to be accepted, as uvicorn has it
_CLOSE_SECONDS = 15.0  # for closing connections and stopping PostgreSQL, after the jobs have ended


def serve(settings: Settings, announce: Callable[[str], None]) -> int:
    """Run the server and workers until a signal asks to stop; `announce` is called with the address once all of them are ready.
    Returns the exit code."""
    with serve_lock.acquire(settings.data_dir) as lock, listen(settings.host, settings.port) as listener:
        address = f"http://{_url_host(settings.host)}:{listener.getsockname()[1]}"

        def announce_ready() -> None:
            lock.announce_url(address)
            announce(address)

        # With faults: a process that one of them kills must not be started again.
        if settings.single_process or settings.faults or sys.platform != "linux":
            recent_log.keep_recent(settings.data_dir, "server")
            run_async(_serve_requests(settings, listener, announce_ready, work=settings.worker_processes > 0))
            return 0
        return _supervise(settings, listener, announce_ready)


def _supervise(settings: Settings, listener: socket.socket, announce_ready: Callable[[], None]) -> int:
    servers = [f"server-{number + 1}" for number in range(settings.server_processes)]
    workers = [f"worker-{number + 1}" for number in range(settings.worker_processes)]
    shared_metrics.create([*servers, *workers])
    recent_log.keep_recent(settings.data_dir, "supervisor")

    def run_server(name: str, report_ready: Callable[[], None]) -> int:
        return _run_role(name, settings, _serve_requests(settings, listener, report_ready, work=False))

    def run_worker(name: str, report_ready: Callable[[], None]) -> int:
        niceness.yield_to_others()
        listener.close()
        return _run_role(name, settings, _run_jobs(settings, report_ready))

    roles = [Role(name, functools.partial(run_server, name)) for name in servers]
    roles += [Role(name, functools.partial(run_worker, name)) for name in workers]
    gc.collect()
    gc.freeze()  # a collection in one process would copy what all of them share
    stop_timeout = settings.stop_grace.total_seconds() + _CLOSE_SECONDS
    return Supervisor(roles, stop_timeout=stop_timeout).run(announce_ready)


def _run_role(name: str, settings: Settings, main: Coroutine[None, None, None]) -> int:
    logs.configure(settings.log_level, settings.log_format, role=name)
    recent_log.keep_recent(settings.data_dir, name)
    shared_metrics.become(name)
    try:
        run_async(main)
    except GristmillError as error:
        return print_error(error)
    return 0


async def _serve_requests(
    settings: Settings, listener: socket.socket, report_ready: Callable[[], None], *, work: bool
) -> None:
    """Answer requests, and with `work` run jobs as well, until a signal asks to stop."""
    async with open_gristmill(settings, work=work) as mill, AsyncExitStack() as stack:
        await _require_admin_key(mill)
        await stack.enter_async_context(mcp.mount(mill.api))
        await stack.enter_async_context(_publish_metrics(mill))
        server = _create_server(mill.api, settings)
        stop = _stop_on_signals()
        serving = asyncio.create_task(server.serve(sockets=[listener]), name="http")
        await server.ready.wait()
        niceness.favour_event_loop()
        report_ready()
        await _wait_until_stopped(stop, mill.worker, serving)
        mill.broadcaster.close()  # otherwise event streams would stay open until their clients close them
        server.should_exit = True
        await serving


async def _run_jobs(settings: Settings, report_ready: Callable[[], None]) -> None:
    """Run jobs until a signal asks to stop."""
    async with open_gristmill(settings, work=True) as mill, _publish_metrics(mill):
        stop = _stop_on_signals()
        report_ready()
        await _wait_until_stopped(stop, mill.worker)


@asynccontextmanager
async def _publish_metrics(mill: app.Gristmill) -> AsyncGenerator[None]:
    registries = mill.context.metrics.registry, pipeline_metrics.REGISTRY
    task = asyncio.create_task(shared_metrics.keep_publishing(registries), name="metrics")
    try:
        yield
    finally:
        await clock.cancel_tasks([task])


async def work(settings: Settings, announce: Callable[[str], None]) -> None:
    """Run a worker until a signal asks to stop; `announce` is called with the address of its probes, or an empty string if it
    has no port, once it runs."""
    recent_log.keep_recent(settings.data_dir, f"extra-worker-{os.getpid()}")
    with ExitStack() as bound:
        listener = None
        if settings.worker_port is not None:
            listener = bound.enter_context(listen(settings.worker_host, settings.worker_port))
        async with open_gristmill(settings, work=True) as mill:
            stop = _stop_on_signals()
            if listener is None:
                announce("")
                await _wait_until_stopped(stop, mill.worker)
                return
            probe_settings = settings.model_copy(update={"host": settings.worker_host})
            server = _create_server(
                api.create_probes(replace(mill.context, settings=probe_settings)), settings
            )
            serving = asyncio.create_task(server.serve(sockets=[listener]), name="probes")
            await server.ready.wait()
            announce(f"http://{_url_host(settings.worker_host)}:{listener.getsockname()[1]}")
            await _wait_until_stopped(stop, mill.worker, serving)
            server.should_exit = True
            await serving


def _create_server(application: FastAPI, settings: Settings) -> "Server":
    return Server(
        uvicorn.Config(
            application,
            http=BoundedHttpProtocol,
            ws="none",
            log_config=None,
            lifespan="off",
            access_log=False,
            forwarded_allow_ips=list(settings.trusted_proxies),
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
def listen(host: str, port: int) -> Generator[socket.socket]:
    """Bind and listen before anything slow starts, so that a port in use is reported at once. Two servers can bind one port while
    neither of them listens; uvloop reports no error to the second that begins to listen, which would announce the other's address.
    Connections wait until the server accepts them."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
            listener.listen(_BACKLOG)
        except OSError as error:
            raise SetupError(
                f"Port {port} on {host} is not available: {error.strerror}. "
                "Choose another with --port, GRISTMILL_PORT or, for a worker, GRISTMILL_WORKER_PORT.",
                code="port_taken",
            ) from error
        yield listener


def _stop_on_signals() -> asyncio.Event:
    stop, loop, numbers = asyncio.Event(), asyncio.get_running_loop(), stop_signals()

    def handle_signal() -> None:
        if stop.is_set():
            # Second signal: restore the default action, so that a third one ends the process even if something hangs.
            for number in numbers:
                loop.remove_signal_handler(number)
        stop.set()

    for number in numbers:
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
        if not await identity.has_admin_key(tx) and not await identity.users.has_active_admin(tx):
            raise SetupError(
                f"The server would listen on {mill.settings.host}, which is not a loopback address, without an admin API key. "
                "Create one first: gristmill keys create NAME --role admin",
                code="unprotected_address",
            )


def _url_host(host: str) -> str:
    return f"[{host}]" if ":" in host else host
