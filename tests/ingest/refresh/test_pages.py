"""Pages and sitemaps are checked by schedule: a page that has not changed costs one request and touches nothing but its schedule."""

from pathlib import Path

from gristmill import jobs
from gristmill.catalog import Base, NewItem
from gristmill.jobs import NewJob
from gristmill.operations import add, bases, delete
from gristmill.work import FindDue
from tests.embedding.hashed import HashedEmbedder
from tests.ingest.refresh.folder_checks import write
from tests.operations.manual_worker import UNLIMITED, ManualWorker, file_to_add
from tests.sources.site import Site, SiteRequest, SiteResponse, serve

PAGE = "<html><body><article><h1>{0}</h1><p>{0} is sold by the sack on Tuesdays.</p></article></body></html>"


class TaggedPage:
    """A page with an ETag, which its server compares."""

    def __init__(self, site: Site, path: str, word: str) -> None:
        self.word, self.statuses = word, list[int]()
        self.url = site.url + path
        site.pages[path] = self.respond

    def respond(self, request: SiteRequest) -> SiteResponse:
        """The page, or that it has not changed."""
        tag = f'"{self.word}"'
        is_same = request.headers.get("If-None-Match") == tag
        self.statuses.append(304 if is_same else 200)
        headers = {"Content-Type": "text/html", "ETag": tag}
        return (
            SiteResponse(304, b"", headers)
            if is_same
            else SiteResponse(200, PAGE.format(self.word).encode(), headers)
        )


async def add_web_item(worker: ManualWorker, base: Base, kind: str, url: str) -> None:
    """Add a page or sitemap, and index it."""
    await add.add(
        worker.db, base.id, [add.ItemToAdd(NewItem(kind, url, url, source={"url": url}), None)], UNLIMITED
    )
    await worker.work()


async def check_due(worker: ManualWorker, *, all_due: bool = True) -> int:
    """Let the schedule fire, after everything has become due; how many jobs followed."""
    if all_due:
        await worker.rows(
            "update item_refresh set next_at = clock_now() where next_at is not null returning item_id"
        )
    async with worker.db.transaction() as tx:
        await jobs.enqueue(tx, NewJob(FindDue(), lane="refresh"))
    return await worker.work()


async def untouched_tables(worker: ManualWorker) -> list[object]:
    """Everything that a check without a change must leave alone."""
    return [
        await worker.rows("select * from item order by id"),
        await worker.rows("select * from item_version order by 1, 2"),
        await worker.rows("select count(*) from event"),
        await worker.rows("select no from chunk order by no"),
        await worker.rows("select name from blob order by 1"),
    ]


async def test_an_unchanged_page_costs_one_conditional_request_and_writes_only_its_schedule(
    worker: ManualWorker, site: Site
) -> None:
    base = await bases.create(worker.db, "pages", HashedEmbedder(), {}, refresh={"every": "1w"})
    pages = [TaggedPage(site, f"/{number}.html", f"Emmer {number}") for number in range(3)]
    bare = site.add_page(
        "/bare.html", PAGE.format("Rye"), Content_Type="text/html"
    )  # no validators: its bytes are compared
    for url in (*(page.url for page in pages), bare):
        await add_web_item(worker, base, "url", url)
    due = await worker.rows(
        "select next_at between clock_now() + interval '3 days' and clock_now() + interval '7 days' from item_refresh"
    )
    assert due == [(True,)] * 4, "checks are spread over the second half of the first week"
    assert await worker.value("select count(*) from job") == 0, "nothing waits in the queue"

    before, requests = await untouched_tables(worker), len(site.requests)
    assert await check_due(worker) == 3, (
        "the schedule's job, one job for the base, and its look at what is left"
    )
    assert await untouched_tables(worker) == before
    assert [page.statuses for page in pages] == [[200, 304]] * 3
    assert len(site.requests) - requests == 4

    pages[1].word = "Spelt"
    site.add_page("/bare.html", PAGE.format("Oats"), Content_Type="text/html")
    await check_due(worker)
    assert await worker.search_texts(base, "Spelt Oats") != []
    unchanged = dict(
        await worker.rows("select i.title, r.unchanged from item_refresh r join item i on i.id = r.item_id")
    )
    assert unchanged == {pages[0].url: 2, pages[1].url: 0, pages[2].url: 2, bare: 0}
    await worker.assert_healthy()


async def test_checks_become_rarer_while_nothing_changes_and_failed_ones_are_repeated_soon(
    worker: ManualWorker, site: Site
) -> None:
    base = await bases.create(worker.db, "pages", HashedEmbedder(), {}, refresh={"every": "1d"})
    page = TaggedPage(site, "/page.html", "Emmer")
    await add_web_item(worker, base, "url", page.url)
    delays: list[float] = []
    for _ in range(9):
        await check_due(worker)
        delays.append(
            await worker.value("select extract(epoch from next_at - clock_now()) / 86400 from item_refresh")
        )
    assert [round(float(delay)) for delay in delays] == [1, 1, 1, 2, 2, 2, 2, 4, 4]
    site.pages["/page.html"] = SiteResponse(503)
    await check_due(worker)
    code, minutes, status = (
        await worker.rows(
            "select r.error_code, extract(epoch from r.next_at - clock_now()) / 60, i.status"
            "  from item_refresh r join item i on i.id = r.item_id"
        )
    )[0]
    assert (code, status) == ("source_busy", "completed")
    assert minutes < 6, "an outage costs minutes, not the rule's interval"
    site.pages["/page.html"] = SiteResponse(404)
    await check_due(worker)
    assert await worker.rows("select status, error_code, live_version from item") == [
        ("failed", "source_gone", 1)
    ]
    before = await untouched_tables(worker)
    await check_due(worker)
    assert await untouched_tables(worker) == before, "an error that is shown already changes nothing"
    site.pages["/page.html"] = page.respond
    await check_due(worker)
    assert await worker.value("select status from item") == "completed"


async def test_a_host_that_is_down_or_limits_requests_is_not_asked_for_each_page(
    worker: ManualWorker, site: Site
) -> None:
    """It does not hold up the checks of others, and all its pages are checked again soon, or when it says."""
    base = await bases.create(worker.db, "pages", HashedEmbedder(), {}, refresh={"every": "1d"})
    for number in range(30):
        await add_web_item(worker, base, "url", TaggedPage(site, f"/{number}.html", f"Emmer {number}").url)
    with serve() as other:
        page = TaggedPage(other, "/page.html", "Rye")
        await add_web_item(worker, base, "url", page.url)
        page.word = "Spelt"
        count = len(site.requests)

        def hang_up(_: SiteRequest) -> SiteResponse:
            raise ConnectionError

        site.fallback = hang_up
        await check_due(worker)
        assert await worker.search_texts(base, "Spelt") != []
    assert len(site.requests) - count < 10
    soon = "select error_code, count(*) from item_refresh where next_at < clock_now() + interval '6 minutes' group by 1"
    assert await worker.rows(soon) == [("source_unreachable", 30)]
    assert await worker.rows("select distinct status from item") == [("completed",)]
    site.fallback = lambda _: SiteResponse(429, headers={"Retry-After": "7200"})
    count = len(site.requests)
    await check_due(worker)
    assert len(site.requests) - count < 10
    when_it_says = (
        "next_at between clock_now() + interval '119 minutes' and clock_now() + interval '121 minutes'"
    )
    rows = await worker.rows(f"select error_code, count(*) from item_refresh where {when_it_says} group by 1")
    assert rows == [("source_busy", 30)]


async def test_a_sitemap_gets_new_pages_and_loses_gone_ones_without_touching_the_others(
    worker: ManualWorker, site: Site
) -> None:
    base = await bases.create(worker.db, "pages", HashedEmbedder(), {}, refresh={"every": "1d"})

    def list_pages(numbers: range) -> None:
        urls = "".join(f"<url><loc>{site.url}/{number}.html</loc></url>" for number in numbers)
        site.add_page(
            "/sitemap.xml", f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{urls}</urlset>'
        )

    pages = [TaggedPage(site, f"/{number}.html", f"Emmer {number}") for number in range(40)]
    list_pages(range(30))
    await add_web_item(worker, base, "sitemap", f"{site.url}/sitemap.xml")
    ((first,),) = await worker.rows("select id from item where title like %s", "%/0.html")
    await delete.delete(worker.db, base.id, [first])
    await worker.work()
    list_pages(range(5, 32))
    await check_due(worker)
    titles = {
        row[0].rpartition("/")[2] for row in await worker.rows("select title from item where type = 'url'")
    }
    assert titles == {f"{number}.html" for number in range(5, 32)}
    assert [page.statuses for page in pages[5:30]] == [[200, 304]] * 25
    list_pages(range(5))
    await check_due(worker)
    assert await worker.value("select count(*) from item where type = 'url'") == 27 + 4, (
        "0.html was deleted here, and stays so"
    )
    assert (
        await worker.value("select error_code from item_refresh where error_code is not null")
        == "mass_removal"
    )
    await worker.assert_healthy()


async def test_what_failed_is_tried_again_when_its_source_is_another_one(
    worker: ManualWorker, site: Site, tmp_path: Path
) -> None:
    """Also if it never had a good version, or if it is again as it was before it failed. What failed is not tried again."""
    base = await bases.create(worker.db, "pages", HashedEmbedder(), {}, refresh={"every": "1d"})
    empty = "<html><body><p></p></body></html>"
    page = TaggedPage(site, "/page.html", "Emmer")
    new = site.add_page("/new.html", empty, Content_Type="text/html")
    await add_web_item(worker, base, "url", page.url)
    await add_web_item(worker, base, "url", new)
    paths = [tmp_path / "new.md", tmp_path / "known.md"]
    write(paths[0], " \n ")
    write(paths[1], "rye")
    await worker.add(base, *map(file_to_add, paths))
    await worker.work()
    site.add_page("/page.html", empty, Content_Type="text/html")
    write(paths[1], " \n ")
    await check_due(worker)
    assert set(await worker.rows("select status, error_code from item")) == {("failed", "no_text")}
    before = await untouched_tables(worker)
    await check_due(worker)
    assert await untouched_tables(worker) == before, "what failed is not tried again"

    site.pages["/page.html"] = page.respond
    site.add_page("/new.html", PAGE.format("Spelt"), Content_Type="text/html")
    for path in paths:
        write(path, f"oats {path.name}")
    await check_due(worker)
    assert await worker.rows("select distinct status from item") == [("completed",)]
    assert len(await worker.search_texts(base, "Emmer Spelt oats")) == 4
    await worker.assert_healthy()


async def test_a_sitemap_of_which_a_file_can_not_be_read_loses_no_pages(
    worker: ManualWorker, site: Site
) -> None:
    base = await bases.create(worker.db, "pages", HashedEmbedder(), {}, refresh={"every": "1d"})

    def publish(name: str, tag: str, *addresses: str) -> None:
        entries = "".join(f"<x><loc>{site.url}{address}</loc></x>" for address in addresses)
        entries = entries.replace("x>", "sitemap>" if tag == "sitemapindex" else "url>")
        site.add_page(name, f'<{tag} xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{entries}</{tag}>')

    for number in range(6):
        TaggedPage(site, f"/{number}.html", f"Emmer {number}")
    publish("/index.xml", "sitemapindex", "/a.xml", "/b.xml")
    publish("/a.xml", "urlset", "/0.html", "/1.html")
    publish("/b.xml", "urlset", "/2.html", "/3.html")
    await add_web_item(worker, base, "sitemap", f"{site.url}/index.xml")
    (root,) = (await worker.rows("select id from item where type = 'sitemap'"))[0]

    async def pages() -> list[str]:
        rows = await worker.rows("select source_key from item where type = 'url' order by source_key")
        return [url.rpartition("/")[2] for (url,) in rows]

    publish("/a.xml", "urlset", "/0.html", "/4.html")
    site.add_page("/b.xml", "<!doctype html><p>Under maintenance", Content_Type="text/html")
    await check_due(worker)
    assert await pages() == [f"{number}.html" for number in range(5)]
    code = "select error_code from item_refresh where item_id = %s"
    assert await worker.value(code, root) == "sitemap_incomplete"
    await worker.reindex(base, root)
    await worker.work()
    assert len(await pages()) == 5, "nor by a reindex"

    publish("/b.xml", "urlset", "/2.html", "/3.html")
    await check_due(worker)
    assert await pages() == ["0.html", "2.html", "3.html", "4.html"]
    assert await worker.value(code, root) is None
    site.pages["/b.xml"] = SiteResponse(404)
    await check_due(worker)
    assert await pages() == ["0.html", "4.html"], "a file that is gone lists nothing"
    await worker.assert_healthy()


async def test_a_killed_check_is_repeated_and_two_workers_check_a_base_once(
    worker: ManualWorker, second_worker: ManualWorker, site: Site
) -> None:
    base = await bases.create(worker.db, "pages", HashedEmbedder(), {}, refresh={"every": "1d"})
    page = TaggedPage(site, "/page.html", "Emmer")
    await add_web_item(worker, base, "url", page.url)
    page.word = "Spelt"
    await worker.rows("update item_refresh set next_at = clock_now() returning item_id")
    async with worker.db.transaction() as tx:
        await jobs.enqueue(tx, NewJob(FindDue(), lane="refresh"))
        await jobs.enqueue(tx, NewJob(FindDue(), lane="refresh"))
    await worker.run(await worker.take("find_due"))
    killed = await worker.take("refresh_documents")
    assert await second_worker.claim() == [], "a base is checked by one worker"
    await worker.rows(
        "update job set state = 'delayed', lease = null, worker = null where id = %s returning id", killed.id
    )
    await worker.make_due()
    await second_worker.work()
    versions = await worker.rows("select wanted_version, live_version, status from item")
    assert versions == [(2, 2, "completed")]
    await worker.run(killed)
    assert await worker.rows("select wanted_version, live_version, status from item") == versions
    assert await worker.value("select count(*) from job_history where kind = 'index_document'") == 2
