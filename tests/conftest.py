"""One PostgreSQL per run; per test a database cloned from a migrated template.

Real PostgreSQL costs a test about 50 ms. The server runs without fsync: what tests kill is our processes,
not the machine. Processes that tests start get its address in GRISTMILL_DATABASE_URL. A test that hangs is ended by
`tests/watchdog.py`.
"""

import asyncio
import gc
import os
import shutil
import tempfile
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import hypothesis
import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo
from pydantic import SecretStr

from gristmill import app
from gristmill.db import Database, local_server
from gristmill.db.migrate import migrate
from gristmill.settings import Settings
from tests.database_clock import DatabaseClock
from tests.embedding import endpoint
from tests.embedding.hashed import HashedEmbedder
from tests.thorough import IS_THOROUGH
from tests.watchdog import Watchdog, stack_folder, summarise

NEVER = "0 0 29 2 *"  # the reconciler works when a test says so
TEMPLATE = "template_gristmill"
_FAST_CONFIG = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "shared_buffers": "32MB",  # every new connection maps them, and every new database goes through them
}
_CACHE_DIR = Path(tempfile.gettempdir()) / "gristmill-tests-cache"
_ROOM_NEEDED = 4 * 2**30  # for the databases of the tests that run at the same time, and the log
_MAX_WORKERS = 8
_MARKERS = {"crash": "crash", "ui": "browser"}  # by folder

# A deadline, and a limit to how long examples may take to be drawn, would be asserts on the wall clock. Examples are the same in
# each run, so that a change is judged by what it changes; thorough runs draw others.
hypothesis.settings.register_profile(
    "gristmill",
    deadline=None,
    derandomize=not IS_THOROUGH,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("gristmill")


def pytest_configure(config: pytest.Config) -> None:
    """Start the server once, in the process that hands out the tests."""
    for name in [name for name in os.environ if name.startswith("GRISTMILL_")]:
        del os.environ[name]
    _cache_bytecode()
    if (worker_input := getattr(config, "workerinput", None)) is not None:
        config.pluginmanager.register(Watchdog(Path(worker_input["stacks"]), worker_input["server_url"]))
        return
    folder = Path(tempfile.mkdtemp(prefix="gristmill-tests-", dir=memory_folder()))
    server = local_server.start(folder, extra_config=_FAST_CONFIG)
    config.stash[_server], config.stash[_folder] = server, folder
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(sql.SQL("create database {}").format(sql.Identifier(TEMPLATE)))
    template_url = make_conninfo(server.url, dbname=TEMPLATE)
    asyncio.run(migrate(template_url))
    # The first connection after a migration writes PostgreSQL's cache of the system catalog, which is copied with the template.
    psycopg.connect(template_url).close()
    config.stash[_stacks] = stack_folder()
    config.pluginmanager.register(Watchdog(config.stash[_stacks], server.url))


def memory_folder() -> Path | None:
    """A file system in memory, where there is a large one: it copies the template in 18 ms, a disk in 90."""
    folder = Path("/dev/shm")
    try:
        return folder if shutil.disk_usage(folder).free > _ROOM_NEEDED else None
    except OSError:
        return None


def _cache_bytecode() -> None:
    """Let the processes that tests start share compiled modules, also where the environment or the installer left none:
    compiling them again takes each of some hundred processes two seconds."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = str(_CACHE_DIR / "bytecode")


def pytest_xdist_auto_num_workers() -> int:
    """Five workers for two cores, because tests wait for a third of their time or more; but no more than PostgreSQL has connections
    for."""
    return min(_MAX_WORKERS, max(2, 5 * (os.cpu_count() or 1) // 2))


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None, None, None]:
    """Leave out thorough tests, unless they are asked for, and mark the tests of folders that `./check --fast` skips as a whole,
    before pytest selects by markers. Once the order is drawn, those of pages come first, one after the other: so one process
    runs them, and the others start neither a browser nor a server for it."""
    if not IS_THOROUGH:
        left_out = [item for item in items if item.get_closest_marker("thorough") is not None]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item.get_closest_marker("thorough") is None]
    for item in items:
        if (marker := _MARKERS.get(item.path.parent.name)) is not None:
            item.add_marker(marker)
    yield
    items.sort(key=lambda item: item.get_closest_marker("browser") is None)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Import the tests without garbage collections, and exempt what is imported from later ones: it stays, and looking through
    it takes a tenth of a second each time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_configure_node(node: Any) -> None:
    """Give an xdist worker the server's address and the folder for stacks."""
    node.workerinput["server_url"] = node.config.stash[_server].url
    node.workerinput["stacks"] = str(node.config.stash[_stacks])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Keep how a worker ended, if it ended by itself: the status is negative for a signal."""
    if error:
        status = node.gateway._io.popen.wait(timeout=60)
        (node.config.stash[_stacks] / f"{node.gateway.id}-exit.txt").write_text(
            f"exit status {status}: {error}\n"
        )


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print where tests hung."""
    summarise(config.stash[_stacks], terminalreporter)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop the server."""
    if (server := config.stash.get(_server, None)) is not None:
        server.close()
        shutil.rmtree(config.stash[_folder], ignore_errors=True)


_server = pytest.StashKey[local_server.LocalServer]()
_folder = pytest.StashKey[Path]()
_stacks = pytest.StashKey[Path]()


@pytest.fixture(scope="session")
def server_url(request: pytest.FixtureRequest) -> str:
    """The run's server."""
    worker_input = getattr(request.config, "workerinput", None)
    return worker_input["server_url"] if worker_input is not None else request.config.stash[_server].url


@pytest.fixture(scope="session")
def admin_connection(server_url: str) -> Generator[psycopg.Connection]:
    """A connection that creates and drops the databases of this process's tests."""
    with psycopg.connect(server_url, autocommit=True) as connection:
        _copy_files_in_the_kernel(connection)
        yield connection


def _copy_files_in_the_kernel(connection: psycopg.Connection) -> None:
    """Let new databases be copied in two thirds of the time, where the system can do that."""
    name = sql.Identifier(f"probe_{uuid4().hex}")
    try:
        connection.execute("set file_copy_method = clone")
        connection.execute(sql.SQL("create database {} template template0 strategy file_copy").format(name))
    except psycopg.Error:
        connection.execute("set file_copy_method = copy")
    else:
        connection.execute(sql.SQL("drop database {}").format(name))


@pytest.fixture
def database_url(server_url: str, admin_connection: psycopg.Connection) -> Generator[str]:
    """A database with the schema, for this test only."""
    with _copy_of_template(server_url, admin_connection) as url:
        yield url


@pytest.fixture
def other_database_url(server_url: str, admin_connection: psycopg.Connection) -> Generator[str]:
    """A second one, for tests of two installations."""
    with _copy_of_template(server_url, admin_connection) as url:
        yield url


@contextmanager
def _copy_of_template(server_url: str, admin_connection: psycopg.Connection) -> Generator[str]:
    name = f"test_{uuid4().hex}"
    admin_connection.execute(
        sql.SQL("create database {} template {} strategy file_copy").format(
            sql.Identifier(name), sql.Identifier(TEMPLATE)
        )
    )
    yield make_conninfo(server_url, dbname=name)
    admin_connection.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


@pytest.fixture
async def db(database_url: str) -> AsyncGenerator[Database]:
    """The test's database, open."""
    database = Database(database_url)
    await database.open()
    yield database
    await database.close()


@pytest.fixture
async def clock(db: Database) -> DatabaseClock:
    """A clock of the database that the test advances."""
    return await DatabaseClock.install(db)


@pytest.fixture
def data_dir() -> Generator[Path]:
    """A data dir for a local server. Not under pytest's own folder, which other users can't enter: as root, PostgreSQL
    runs as another user."""
    folder = Path(tempfile.mkdtemp(prefix="gristmill-data-", dir=memory_folder()))
    yield folder / "data"
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def cache_dir() -> Path:
    """Kept between runs, so that the default embedder is prepared once on a machine."""
    return _CACHE_DIR


@pytest.fixture(scope="session")
def quick_embedder() -> Generator[dict[str, str]]:
    """Settings of processes that embed with a fake endpoint: each would take half a second to load the default model."""
    with endpoint.serve() as embedder:
        yield endpoint.embedder_settings(embedder.url)


@pytest.fixture(scope="session")
def session_settings(cache_dir: Path) -> Settings:
    """What the settings of all tests have in common, validated once: that takes as long as the start of a Gristmill."""
    return Settings.model_validate(
        {
            "cache_dir": cache_dir,
            "port": 0,
            "embedder": "hashed",
            "stop_grace": 0.5,  # at the end of a test, for jobs that it left running
            "reconcile_cron": NEVER,
            "watch_folders": False,  # tests of watches turn it on
            "reader_processes": 1,  # by default, the first document that needs one starts one for each core
        }
    )


@pytest.fixture
def settings(session_settings: Settings, database_url: str) -> Generator[Settings]:
    """Settings on the test's database, with the quick embedder as the default."""
    with tempfile.TemporaryDirectory(prefix="gristmill-data-", dir=memory_folder()) as folder:
        own = {"data_dir": Path(folder) / "data", "database_url": SecretStr(database_url)}
        yield session_settings.model_copy(update=own)


@pytest.fixture
async def mill(settings: Settings) -> AsyncGenerator[app.Gristmill]:
    """A Gristmill with a worker, in this process."""
    async with app.gristmill(settings, work=True, extra_embedders={"hashed": HashedEmbedder()}) as running:
        yield running


@pytest.fixture
async def http(mill: app.Gristmill) -> AsyncGenerator[httpx.AsyncClient]:
    """A client of the mill's API."""
    transport = httpx.ASGITransport(app=mill.api, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        yield client
