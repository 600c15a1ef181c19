"""A container reports what its listing skipped, whatever happens to its children."""

import os
from collections.abc import Generator
from pathlib import Path

import pytest

from gristmill.catalog import Base, NewItem
from gristmill.operations import delete
from gristmill.operations.add import ItemToAdd
from gristmill.server.api.schemas.items import ItemOut
from tests.operations.manual_worker import ManualWorker, folder_to_add, items_by_title
from tests.sources.site import Site, serve
from tests.sources.test_sitemap import index, urlset


@pytest.fixture
def site() -> Generator[Site]:
    with serve() as server:
        yield server


async def status_and_warnings(
    worker: ManualWorker, base: Base, title: str
) -> tuple[str, list[str], dict[str, int]]:
    item = ItemOut.of((await items_by_title(worker, base))[title])
    return item.status, item.warnings, item.left_out


async def test_a_sitemap_reports_how_much_it_left_out_and_why(
    worker: ManualWorker, base: Base, site: Site
) -> None:
    """C8, C9: the report stays while its pages end one after the other, and when one of them fails."""
    site.add_page("/robots.txt", "User-agent: *\nDisallow: /private\n")
    url = site.add_page("/sitemap.xml", index(f"{site.url}/one.xml", f"{site.url}/gone.xml"))
    pages = [f"{site.url}/{name}" for name in ("good", "good", "bad", "private/a", "private/b")]
    site.add_page("/one.xml", urlset(*pages, f"{site.elsewhere}/c"))
    site.add_page("/good", "Rye.", Content_Type="text/plain")
    new = NewItem("sitemap", "site", url, source={"url": url})
    (root,) = await worker.add(base, ItemToAdd(new, None))
    assert await status_and_warnings(worker, base, "site") == ("preparing", [], {})
    left_out = {"disallowed": 2, "other_site": 1, "gone_sitemap": 1}
    await worker.step()
    assert await status_and_warnings(worker, base, "site") == ("processing", ["left_out"], left_out)
    await worker.work()
    assert await status_and_warnings(worker, base, "site") == (
        "completed",
        ["some_failed", "left_out"],
        left_out,
    )
    await delete.delete(worker.db, base.id, [(await items_by_title(worker, base))[f"{site.url}/bad"].id])
    await worker.work()
    assert await status_and_warnings(worker, base, "site") == ("completed", ["left_out"], left_out)
    site.add_page("/sitemap.xml", urlset(f"{site.url}/good"))
    await worker.reindex(base, root.id)
    await worker.step()
    assert (await status_and_warnings(worker, base, "site"))[1:] == (["left_out"], left_out)
    await worker.work()
    assert await status_and_warnings(worker, base, "site") == ("completed", [], {})
    await worker.assert_healthy()


async def test_a_folder_reports_the_links_and_special_files_that_it_left_out(
    worker: ManualWorker, base: Base, docs: Path
) -> None:
    """S4-57: a loop of links is harmless and reported; what a rule leaves out is not reported."""
    (docs / "loop").symlink_to(docs)
    (docs / "deep/up").symlink_to("..")
    (docs / ".hidden").symlink_to(docs)
    os.mkfifo(docs / "pipe")
    await worker.add(base, folder_to_add(docs))
    await worker.work()
    assert await status_and_warnings(worker, base, "docs") == (
        "completed",
        ["left_out"],
        {"linked_folder": 1, "special_file": 1},
    )
    assert await status_and_warnings(worker, base, "deep") == (
        "completed",
        ["left_out"],
        {"linked_folder": 1},
    )
    (docs / "deep/up").unlink()
    await worker.reindex(base, (await items_by_title(worker, base))["docs"].id)
    await worker.work()
    assert await status_and_warnings(worker, base, "deep") == ("completed", [], {})
