"""WebDAV: what counts as a change of a file."""

from gristmill.connectors import webdav
from gristmill.connectors.testing import open_kind, read_all
from tests.connectors.fakes.files import FakeWebDav
from tests.connectors.fakes.tool import serve_fake


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
