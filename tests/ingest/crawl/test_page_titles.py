"""A page that no one named has the title that it gives itself, from the moment on that its text is searched."""

from typing import Any

import pytest

from gristmill import catalog, faults, search
from gristmill.catalog import Base, ItemFilter, NewItem, TreeOrder
from gristmill.operations import add, bases, freshness
from gristmill.operations.rename import rename
from tests.embedding.hashed import HashedEmbedder
from tests.ingest.crawl.linked_site import LinkedSite, add_site
from tests.ingest.refresh.test_pages import check_due
from tests.operations.manual_worker import UNLIMITED, ManualWorker


async def add_page(
    worker: ManualWorker, base: Base, new: NewItem, on_conflict: add.OnConflict = "rename"
) -> None:
    """Add a page and index it."""
    await add.add(worker.db, base.id, [add.ItemToAdd(new, None)], UNLIMITED, on_conflict=on_conflict)
    await worker.work()


async def titles(worker: ManualWorker, site: LinkedSite) -> dict[str, str]:
    """The title of each page, by its path."""
    rows = await worker.rows("select source ->> 'url', title from item where type = 'url' order by 1")
    return {url.removeprefix(site.url): title for url, title in rows}


async def found_titles(worker: ManualWorker, base: Base, words: str) -> list[str]:
    """The titles of what a search by words finds."""
    searcher = search.Searcher(worker.db, cache_bytes=2**20)
    hits = await searcher.search([search.Target(base, None)], search.SearchRequest(words, mode="text"))
    return [hit.title for hit in hits]


async def test_a_page_has_its_own_title_until_someone_gives_it_another(
    worker: ManualWorker, base: Base, site: LinkedSite
) -> None:
    site.publish("/", "Home", ["/a", "/b"])
    site.publish("/a", "Emmer", head="<title>ignored, the second one</title>")
    site.server.add_page("/b", "<p>A page without a title, about rye.</p>", Content_Type="text/html")
    await add_site(worker, base, site.url, useSitemaps=False)
    assert await titles(worker, site) == {"/": "Home", "/a": "Emmer", "/b": site.url + "/b"}
    assert await found_titles(worker, base, "Emmer sold") == ["Emmer", "Home"]
    async with worker.db.connection() as tx:
        site_item = (await catalog.list_items(tx, base.id, ItemFilter(), limit=1))[0]
        by_title = await catalog.list_items_sorted(
            tx, base.id, ItemFilter(parent=site_item.id), TreeOrder("title"), limit=9
        )
        filtered = await catalog.list_items(tx, base.id, ItemFilter(everywhere=True, title="EMM"), limit=9)
    assert [item.title for item in by_title] == ["Emmer", "Home", site.url + "/b"]
    assert [item.title for item in filtered] == ["Emmer"]

    # Its title changes with its text; that of a page that someone named does not.
    (page,) = await worker.rows("select id from item where title = 'Emmer'")
    (home,) = await worker.rows("select id from item where title = 'Home'")
    async with worker.db.transaction() as tx:
        locked = await catalog.lock_base(tx, base.id)
        assert locked is not None
        (item,) = await catalog.find_items(tx, [home[0]])
        await rename(tx, locked, item, "Our mill")
    site.publish("/a", "Spelt")
    site.publish("/", "Start", ["/a", "/b"])
    for item_id in (page[0], home[0]):
        await freshness.check_now(worker.db, item_id)
    await worker.work()
    assert await titles(worker, site) == {"/": "Our mill", "/a": "Spelt", "/b": site.url + "/b"}
    assert await found_titles(worker, base, "mill") == ["Our mill"]
    assert await found_titles(worker, base, "Emmer") == []
    await worker.reindex(base, site_item.id)
    await worker.work()
    assert await titles(worker, site) == {"/": "Our mill", "/a": "Spelt", "/b": site.url + "/b"}


async def test_a_title_becomes_visible_with_its_text_in_one_transaction(
    worker: ManualWorker, site: LinkedSite
) -> None:
    """Promise 2: a kill before the commit leaves the old title with the old text."""
    base = await bases.create(worker.db, "pages", HashedEmbedder(), {}, refresh={"every": "1w"})
    url = site.publish("/a", "Emmer")
    await add_page(worker, base, catalog.new_page(url))
    site.publish("/a", "Spelt")
    faults.arm("publish.before_commit=fail@1")
    await check_due(worker)
    assert (await titles(worker, site), await worker.search_texts(base, "Spelt")) == ({"/a": "Emmer"}, [])
    assert await found_titles(worker, base, "Emmer") == ["Emmer"]
    await worker.make_due()
    await worker.work()
    assert await titles(worker, site) == {"/a": "Spelt"}
    assert await found_titles(worker, base, "Spelt") == ["Spelt"]


async def test_a_page_that_is_added_again_has_the_title_that_is_given_with_it(
    worker: ManualWorker, base: Base, site: LinkedSite
) -> None:
    url = site.publish("/a", "Emmer")
    named = NewItem("url", "Grain", url, source={"url": url})
    await add_page(worker, base, named)
    assert await titles(worker, site) == {"/a": "Grain"}
    await add_page(worker, base, catalog.new_page(url), "replace")
    assert await titles(worker, site) == {"/a": "Emmer"}, "though its text has not changed"
    await add_page(worker, base, named, "replace")
    assert await titles(worker, site) == {"/a": "Grain"}
    assert await found_titles(worker, base, "Grain") == ["Grain"]


@pytest.mark.parametrize(
    ("head", "title"),
    [
        ("<title> Emmer\n  and   rye </title>", "Emmer and rye"),
        ("<title>Mill: Emmer</title><meta property='og:title' content='Emmer'>", "Emmer"),
        ("<title>invoice\u202efdp.exe\u0007</title>", "invoice fdp.exe"),
        (f"<title>{'x' * 2_000}</title>", "x" * 500),
        ("<title>&lt;b&gt;Emmer&lt;/b&gt;</title>", "<b>Emmer</b>"),
        ("<title> \u200b </title>", None),
    ],
)
async def test_titles_are_cleaned(
    worker: ManualWorker, base: Base, site: LinkedSite, head: str, title: str | None
) -> None:
    body = (
        f"<html><head><meta charset=utf-8>{head}</head><body><p>Emmer is sold by the sack.</p></body></html>"
    )
    url = site.server.add_page("/page", body, Content_Type="text/html")
    await add_page(worker, base, catalog.new_page(url))
    shown: dict[str, Any] = await titles(worker, site)
    assert shown == {"/page": title or url}
