"""WebDAV: what counts as a change of a file, and folders that the credentials may not list."""

from typing import Any

import pytest

from gristmill import app
from gristmill.connectors import webdav
from gristmill.connectors.testing import open_kind, open_temporarily, read_all
from gristmill.errors import Unreadable
from tests.connectors.fakes.files import FakeWebDav
from tests.connectors.fakes.tool import FakeCall, FakeError, serve_fake
from tests.connectors.harness import ConnectorHarness
from tests.sources.site import SiteResponse


class _ApacheLike(FakeWebDav):
    """Its ETags are weak in the first second after a change."""

    is_fresh = True

    def _show(self, path: str) -> str:
        shown = super()._show(path)
        return shown.replace("<d:getetag>", "<d:getetag>W/") if self.is_fresh else shown


async def test_an_etag_that_is_no_longer_weak_is_no_change() -> None:
    with serve_fake(_ApacheLike()) as tool:
        documents = await read_all(open_kind(webdav.KIND, tool.config(), tool.credentials()))
        tool.is_fresh = False
        later = await read_all(open_kind(webdav.KIND, tool.config(), tool.credentials()))
    assert {key: read.document for key, read in documents.items()} == {
        key: read.document for key, read in later.items()
    }
    assert len(documents) == len(tool.expected_documents())


class _BehindProxy(FakeWebDav):
    """A proxy serves it at another path, and does not change the addresses in its listings."""

    def __init__(self) -> None:
        super().__init__()
        self.route("PROPFIND", "/files/(?P<path>.*)", self.show_folder)

    def config(self) -> dict[str, Any]:
        assert self.site is not None
        return {"baseUrl": f"{self.site.url}/files"}


async def test_a_server_that_names_its_files_elsewhere_is_a_problem() -> None:
    """Each file was requested at a wrong address, and the run ended well without any."""
    with serve_fake(_BehindProxy()) as tool:
        async with open_temporarily(webdav.KIND, tool.config(), tool.credentials()) as connector:
            with pytest.raises(Unreadable, match="not below /files"):
                await connector.check()
            batches = [batch async for batch in connector.sync({})]
            assert [bool(batch.problem) for batch in batches] == [True]


async def test_odd_names_lead_to_their_files() -> None:
    names = [
        "a#b.md",
        "100%.md",
        "50%25.md",
        "q?.md",
        "x;y=1.md",
        "a+b & c.md",
        "dot..md",
        "e\u0301.md",
        "\u00e9.md",
        "A.md",
        "a.md",
    ]
    with serve_fake(FakeWebDav()) as tool:
        tool.files = {f"f#1/{name}": f"text {name}" for name in names}
        documents = await read_all(open_kind(webdav.KIND, tool.config(), tool.credentials()))
    assert {read.document.title: read.text for read in documents.values()} == tool.files


class _Guarded(FakeWebDav):
    """A folder of it may not be listed, nor what is below."""

    closed = "none"

    def show_folder(self, call: FakeCall, path: str) -> SiteResponse:
        if f"{path}/".startswith(f"{self.closed}/"):
            raise FakeError(403)
        return super().show_folder(call, path)


async def test_a_folder_that_may_not_be_listed_does_not_keep_out_the_others(mill: app.Gristmill) -> None:
    """The run names it. What was read of it before is removed: these credentials no longer see it."""
    with serve_fake(_Guarded()) as tool:
        tool.files = {
            f"{folder}/x.md": f"text {tool.new_word()}" for folder in ("a", "b", "m", "m/deep", "z")
        }
        harness = await ConnectorHarness.create(mill, tool)
        tool.closed = "m"
        run = await harness.sync()
        assert (run.status, run.item_errors) == ("completed_with_errors", 1)
        assert sorted(await harness.indexed_documents()) == ["file:a/x.md", "file:b/x.md", "file:z/x.md"]
        assert "/dav/m" in await harness.log_text(run)
        tool.closed = "none"
        assert (await harness.sync()).status == "success"
        await harness.assert_matches_tool()
        tool.closed = "m"
        assert (await harness.sync()).documents_pruned == 2
