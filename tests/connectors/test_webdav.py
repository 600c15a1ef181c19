"""WebDAV: what counts as a change of a file, and folders that the credentials may not list."""

from gristmill import app
from gristmill.connectors import webdav
from gristmill.connectors.testing import open_kind, read_all
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


class _Guarded(FakeWebDav):
    """A folder of it may not be listed, nor what is below."""

    closed = "none"

    def _propfind(self, call: FakeCall, path: str) -> SiteResponse:
        if f"{path}/".startswith(f"{self.closed}/"):
            raise FakeError(403)
        return super()._propfind(call, path)


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
