"""A worker that is killed while it crawls a site, or while it renders a page."""

import random
import sys
from collections import Counter
from collections.abc import Generator
from datetime import timedelta
from pathlib import Path

import psutil
import pytest

from gristmill.catalog import Base, NewItem
from gristmill.db import Database
from gristmill.ingest.crawl.crawler import BATCH
from gristmill.integrity import invariants
from gristmill.operations import add
from gristmill.settings import Settings
from gristmill.sources.rendering.chromium import FOLDER_PREFIX
from tests.crash.event_consumers import Daemon
from tests.crash.indexing_trial import ROOT
from tests.gristmill_process import environment
from tests.ingest.crawl.linked_site import LinkedSite
from tests.operations.manual_worker import UNLIMITED, ManualWorker
from tests.sources.rendering.chromium_here import needs_chromium
from tests.sources.rendering.test_renderer import processes_with
from tests.sources.site import SiteRequest, SiteResponse, serve
from tests.thorough import IS_THOROUGH
from tests.wait_until import wait_until

PAGES = 40
DELAY = timedelta(milliseconds=5)
KILLS = ["crawl.before_commit=kill@2", "crawl.finished=kill"]
ALL_KILLS = [
    "crawl.seeded=kill",
    "crawl.fetched=kill",
    "crawl.before_commit=kill",
    "crawl.fetched=kill@2",
    KILLS[0],
    KILLS[1],
]


@pytest.fixture
def site() -> Generator[LinkedSite]:
    """A web site on a loopback port."""
    with serve() as server:
        yield LinkedSite(server)


@pytest.fixture
async def manual(db: Database, settings: Settings) -> ManualWorker:
    """What adds items and asks for rows; the work is done by other processes."""
    return await ManualWorker.start(db, settings)


class CrawlWorker:
    """A worker process that is killed."""

    def __init__(self, settings: Settings, url: str, folder: Path) -> None:
        self._settings, self._url, self._folder = settings, url, folder
        self.daemon: Daemon | None = None

    async def start(self, faults: str = "") -> Daemon:
        """Start it, armed with faults."""
        settings = {
            "database_url": self._url,
            "lease": "PT1S",
            "embedder": "hashed",
            "log_level": "error",
            "allow_private_addresses": "true",
            "crawl_delay": str(DELAY.total_seconds()),
            "faults": faults,
        }
        folders = self._settings.data_dir, self._settings.cache_dir  # blobs are shared with the manual worker
        env = {**environment(*folders, **settings), "PYTHONPATH": str(ROOT)}
        arguments = ["tests.ingest.worker", "64", "0", str(self._folder / "counted")]
        self.daemon = Daemon(arguments, env, self._folder / "log")
        await self.daemon.start()
        return self.daemon

    async def run_until_killed(self, fault: str) -> None:
        """Run it until a fault kills it."""
        daemon = await self.start(fault)
        process = daemon.process
        assert process is not None

        async def is_dead() -> bool:
            return process.poll() is not None

        try:
            await wait_until(is_dead, limit=60, every=0.05)
        finally:
            daemon.kill()

    def kill(self) -> None:
        """Kill it."""
        if self.daemon is not None:
            self.daemon.kill()


@pytest.fixture
def crawl_worker(settings: Settings, database_url: str, tmp_path: Path) -> Generator[CrawlWorker]:
    """A worker process; killed at the end."""
    worker = CrawlWorker(settings, database_url, tmp_path)
    yield worker
    worker.kill()


def publish(site: LinkedSite) -> None:
    """A start page that links to half of the pages, each of which links to one more."""
    half = PAGES // 2
    site.publish("/", "Home", [f"/{number}" for number in range(half)])
    for number in range(half):
        site.publish(f"/{number}", f"Emmer {number}", [f"/{half + number}"])
        site.publish(f"/{half + number}", f"Rye {number}", ["/"])


async def add_to_queue(manual: ManualWorker, base: Base, url: str) -> None:
    """Add a site without crawling it here."""
    item = NewItem("site", "site", url, source={"url": url})
    await add.add(manual.db, base.id, [add.ItemToAdd(item, None)], UNLIMITED)


async def wait_for_rest(manual: ManualWorker) -> None:
    """Wait until no job is left."""

    async def is_at_rest() -> bool:
        return await manual.value("select count(*) from job where kind <> 'compact_base'") == 0

    await wait_until(is_at_rest, limit=60)


async def assert_complete(manual: ManualWorker, site: LinkedSite, kills: int) -> None:
    """Every page is there once, searchable, and was fetched at most once more for each kill."""
    rows = await manual.rows("select source_key, status from item where type = 'url'")
    assert Counter(rows) == Counter(
        {(site.url + path, "completed"): 1 for path in ("/", *(f"/{number}" for number in range(PAGES)))}
    )
    assert await manual.value("select count(distinct item_id) from chunk") == PAGES + 1
    fetched = Counter(site.requests_since(0))
    assert max(fetched.values()) <= 1 + kills
    assert fetched.total() <= PAGES + 1 + kills * BATCH
    crawl = await manual.rows("select number, is_running, is_complete, pages from site_crawl")
    assert crawl == [(1, False, True, PAGES + 1)]
    assert await manual.value("select count(*) from crawl_page where fetched < number") == 0
    hosts = await manual.rows("select host, delay, next_at < clock_now() + interval '1 minute' from web_host")
    assert hosts == [(site.server.host, DELAY, True)]
    async with manual.db.connection() as tx:
        assert await invariants.find_violations(tx) == []


@pytest.mark.slow
async def test_a_crawl_that_is_killed_at_its_steps_is_complete_and_fetches_little_twice(
    manual: ManualWorker, crawl_worker: CrawlWorker, site: LinkedSite
) -> None:
    publish(site)
    await add_to_queue(manual, await manual.base(), site.url)
    kills = ALL_KILLS if IS_THOROUGH else KILLS
    for kill in kills:
        await crawl_worker.run_until_killed(kill)
    await crawl_worker.start()
    await wait_for_rest(manual)
    await assert_complete(manual, site, len(kills))


@pytest.mark.slow
@pytest.mark.thorough
async def test_a_crawl_that_is_killed_at_random_moments_is_complete(
    manual: ManualWorker, crawl_worker: CrawlWorker, site: LinkedSite
) -> None:
    publish(site)
    await add_to_queue(manual, await manual.base(), site.url)
    daemon = await crawl_worker.start()
    dice, kills = random.Random(), 5
    for _ in range(kills):
        wanted = len(site.server.requests) + dice.randint(1, 8)

        async def has_moved(wanted: int = wanted) -> bool:
            jobs = await manual.value("select count(*) from job where kind <> 'compact_base'")
            return len(site.server.requests) >= wanted or jobs == 0

        await wait_until(has_moved, limit=60)
        await daemon.restart_after_kill()
    await wait_for_rest(manual)
    await assert_complete(manual, site, kills)


@pytest.mark.slow
@pytest.mark.thorough
async def test_a_kill_while_pages_are_removed_leaves_the_rest_to_the_next_worker(
    manual: ManualWorker, crawl_worker: CrawlWorker, site: LinkedSite
) -> None:
    publish(site)
    base = await manual.base()
    await add_to_queue(manual, base, site.url)
    await manual.work()
    site.publish("/", "Home", ["/0"])
    (item,) = await manual.rows("select id from item where type = 'site'")
    await manual.reindex(base, item[0])
    await crawl_worker.run_until_killed("crawl.removed=kill")
    await crawl_worker.start()
    await wait_for_rest(manual)
    keys = await manual.rows("select source_key from item where type = 'url' order by 1")
    assert [key.removeprefix(site.url) for (key,) in keys] == ["/", "/0", f"/{PAGES // 2}"]
    async with manual.db.connection() as tx:
        assert await invariants.find_violations(tx) == []


def profile_folder(daemon: Daemon) -> Path:
    """Where the Chromium that a worker has started keeps its profile: an argument of its guard."""
    assert daemon.process is not None
    commands = [child.cmdline() for child in psutil.Process(daemon.process.pid).children()]
    (folder,) = [word for words in commands for word in words if Path(word).name.startswith(FOLDER_PREFIX)]
    return Path(folder)


def is_folder(path: Path) -> bool:
    """Whether the folder exists."""
    return path.is_dir()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@needs_chromium
async def test_a_worker_that_is_killed_while_it_renders_leaves_no_process_and_no_file(
    manual: ManualWorker, crawl_worker: CrawlWorker, site: LinkedSite
) -> None:
    """The page's script waits for data that the server holds back until the test is over."""

    def hold(_: SiteRequest) -> SiteResponse:
        site.server.closing.wait()
        return SiteResponse(200, b"{}")

    site.server.pages["/data"] = hold
    page = "<script>fetch('/data').then(() => { document.body.append('Emmer'); })</script>"
    url = site.server.add_page("/app", page, Content_Type="text/html")
    base = await manual.base()
    item = NewItem("url", url, url, source={"url": url, "render": "always"})
    await add.add(manual.db, base.id, [add.ItemToAdd(item, None)], UNLIMITED)
    daemon = await crawl_worker.start()

    async def is_waiting() -> bool:
        return "/data" in site.server.requested_paths()

    await wait_until(is_waiting, limit=60)
    folder = profile_folder(daemon)
    assert len(processes_with(folder.name)) > 2, "the guard, and the processes of Chromium"
    assert is_folder(folder)
    crawl_worker.kill()

    async def is_clean() -> bool:
        return not is_folder(folder) and not processes_with(folder.name)

    await wait_until(is_clean)
    site.server.add_page("/data", "{}")
    await crawl_worker.start()
    await wait_for_rest(manual)
    assert await manual.value("select status from item") == "completed"
