"""Google Cloud Storage and Azure Blob Storage: the requests that `obstore` makes, answered as these services document it."""

import base64
import json
from contextlib import aclosing
from itertools import chain
from typing import Any
from xml.sax.saxutils import escape

import pytest

from gristmill.connectors import object_store
from gristmill.connectors.port import Attachment, Checkpoints, Connector
from gristmill.connectors.streams import closable
from gristmill.connectors.testing import open_kind, open_temporarily, read_all
from gristmill.connectors.transport import CredentialsRejected
from gristmill.errors import Unreadable
from tests.connectors.fakes.files import FakeS3, service_account_key
from tests.connectors.fakes.tool import FakeCall, FakeError, failing, serve_fake
from tests.sources.site import SiteResponse


class FakeGcs(FakeS3):
    """A bucket, by the XML API, which is that of S3 but for the credentials."""

    kind = "gcs"

    def credentials(self) -> dict[str, Any]:
        return {"serviceAccountKey": service_account_key()}

    def check_authorization(self, call: FakeCall) -> None:
        if not call.headers.get("authorization", "").startswith("Bearer "):
            raise FakeError(403)


class FakePublicGcs(FakeGcs):
    """A bucket that everyone can read."""

    def credentials(self) -> dict[str, Any]:
        return {}

    def check_authorization(self, call: FakeCall) -> None:
        assert "authorization" not in call.headers


class FakeAzure(FakeS3):
    """A container of Azure."""

    kind = "azure"

    def config(self) -> dict[str, Any]:
        assert self.site is not None
        return {"account": "acme", "container": "bucket", "endpoint": self.site.url, "prefix": "docs"}

    def credentials(self) -> dict[str, Any]:
        return {"accountKey": base64.b64encode(b"key of the account").decode()}

    def check_authorization(self, call: FakeCall) -> None:
        if not call.headers.get("authorization", "").startswith("SharedKey acme:"):
            raise FakeError(403)

    def is_after_start(self, key: str, start: str) -> bool:
        """Whether a listing that starts at a name has this one."""
        return key >= start

    def _list(self, call: FakeCall) -> SiteResponse:
        assert (call.params["restype"], call.params["comp"]) == ("container", "list")
        assert call.params["prefix"] == "docs/"
        keys = sorted(f"docs/{path}" for path in self.files)
        keys = [key for key in keys if self.is_after_start(key, call.params.get("startFrom", ""))]
        page = [key for key in keys if key > call.params.get("marker", "")][: self.page_size]
        blobs = "".join(
            f"<Blob><Name>{escape(key)}</Name><Properties>"
            f"<Last-Modified>{self.now:%a, %d %b %Y %H:%M:%S GMT}</Last-Modified>"
            f"<Content-Length>{len(self.files[key[5:]])}</Content-Length><Content-Type>text/plain</Content-Type>"
            f"<Etag>{self.etag(key[5:])}</Etag></Properties></Blob>"
            for key in page
        )
        marker = page[-1] if page and page[-1] != keys[-1] else ""
        body = f"<EnumerationResults><Blobs>{blobs}</Blobs><NextMarker>{escape(marker)}</NextMarker></EnumerationResults>"
        return SiteResponse(200, body.encode(), {"Content-Type": "application/xml"})


class FakeAzurite(FakeAzure):
    """It ignores the name to start at, as Azurite 3.36 does."""

    def is_after_start(self, key: str, start: str) -> bool:
        return True


class FakeOneLake(FakeAzure):
    """It lists nothing if there is a name to start at."""

    def is_after_start(self, key: str, start: str) -> bool:
        return not start


@pytest.mark.parametrize(
    ("status", "code", "is_listing", "message"),
    [
        (301, "PermanentRedirect", True, "another region"),
        (400, "AuthorizationHeaderMalformed", True, r"region to that of the bucket \(eu-central-1\)"),
        (404, "NoSuchBucket", True, "There is no bucket"),
        (403, "InvalidObjectState", False, "is archived. Restore it"),
        (403, "AccessDenied", False, "credentials can't read"),
    ],
)
async def test_a_store_that_refuses_says_what_to_do(
    status: int, code: str, is_listing: bool, message: str
) -> None:
    """Another region was "status 301" or "status 400", and an archived object a lack of permissions."""
    body = f"<Error><Code>{code}</Code><Region>eu-central-1</Region></Error>".encode()
    with serve_fake(FakeS3()) as tool:
        tool.add_rule(lambda _: True, lambda: SiteResponse(status, body), times=9)
        async with open_temporarily(object_store.S3, tool.config(), tool.credentials()) as connector:
            file = Attachment("1", "a.md", locator={"path": "a.md"})
            with pytest.raises(Unreadable, match=message):
                await (connector.check() if is_listing else anext(connector.download(file)))
        tool.rules.clear()


HALF_A_KEY = json.dumps({"private_key": "half", "private_key_id": "1", "client_email": "robot@p.example"})
_PAGED_STORES = [
    (FakeS3, object_store.S3),
    (FakeGcs, object_store.GCS),
    (FakeAzure, object_store.AZURE),
    (FakeAzurite, object_store.AZURE),
    (FakeOneLake, object_store.AZURE),
]


@pytest.mark.parametrize(
    ("fake", "kind"),
    [
        (FakeGcs, object_store.GCS),
        (FakePublicGcs, object_store.GCS),
        (FakeAzure, object_store.AZURE),
    ],
)
async def test_a_store_is_listed_page_by_page_and_its_files_are_read(fake: type[FakeS3], kind: Any) -> None:
    """What it refuses is a refusal of the credentials."""
    with serve_fake(fake()) as tool:
        documents = await read_all(open_kind(kind, tool.config(), tool.credentials()))
        expected = {key: document.words for key, document in tool.expected_documents().items()}
        assert set(documents) == set(expected)
        for key, read in documents.items():
            assert all(word in read.text for word in expected[key])
        tool.add_rule(lambda _: True, failing(tool, 403), times=9)
        async with open_temporarily(kind, tool.config(), tool.credentials()) as connector:
            with pytest.raises(CredentialsRejected):
                await connector.check()


def fill(tool: FakeS3) -> None:
    """More files than a page has; the store returns other numbers of them at a time."""
    tool.page_size = 700
    tool.files = {f"file {number:04}.md": "text" for number in range(2500)}


async def listed_files(connector: Connector, checkpoints: Checkpoints, max_batches: int) -> list[list[str]]:
    """The ids in each batch of a listing, which ends within so many."""
    batches: list[list[str]] = []
    async with aclosing(closable(connector.sync(checkpoints))) as stream:
        async for batch in stream:
            assert batch.problem is None, batch.problem
            batches.append([entry.ref.source_id for entry in batch.present])
            assert len(batches) <= max_batches, "the listing does not end"
    return batches


@pytest.mark.parametrize(("fake", "kind"), _PAGED_STORES)
async def test_a_listing_of_many_objects_names_each_of_them_once(fake: type[FakeS3], kind: Any) -> None:
    """Also if the store can't start at a name: Azurite returned the first page again, without an end."""
    with serve_fake(fake()) as tool:
        fill(tool)
        async with open_temporarily(kind, tool.config(), tool.credentials()) as connector:
            batches = await listed_files(connector, {}, 3)
        assert [len(batch) for batch in batches] == [1000, 1000, 500]
        assert sorted(chain(*batches)) == sorted(tool.expected_documents())


@pytest.mark.parametrize(("fake", "kind"), _PAGED_STORES)
async def test_an_interrupted_listing_of_many_objects_is_completed(fake: type[FakeS3], kind: Any) -> None:
    """Whether the store starts at the name, at the beginning, or returns nothing: what it has is never taken for deleted."""
    with serve_fake(fake()) as tool:
        fill(tool)
        async with (
            open_temporarily(kind, tool.config(), tool.credentials()) as killed,
            aclosing(closable(killed.sync({}))) as stream,
        ):
            first = await anext(stream)
        assert first.checkpoint is not None
        async with open_temporarily(kind, tool.config(), tool.credentials()) as connector:
            rest = await listed_files(connector, {first.stream: first.checkpoint}, 3)
        before = [entry.ref.source_id for entry in first.present]
        assert {*before, *chain(*rest)} == set(tool.expected_documents())


@pytest.mark.parametrize("name", ["a//b.md", "a/../b.md", "/c.md", "tab\tb.md", "x\x08.md"])
async def test_a_bucket_of_s3_is_listed_without_names_that_obstore_does_not_accept(name: str) -> None:
    """One of them kept the whole bucket from being read. The others have the same ids and marks as without it."""
    with serve_fake(FakeS3()) as tool:
        fill(tool)
        before, notes = await list_marks(tool)
        assert (len(before), notes) == (2500, [])
        tool.files = {name: "two", **tool.files, "a//z.md": "three", "folder/": ""}
        after, notes = await list_marks(tool)
        assert after == before
        assert sum(int(note.partition(" ")[0]) for note in notes) == 2


async def list_marks(tool: FakeS3) -> tuple[dict[str, str | None], list[str]]:
    """The marks of all objects by id, and what the listing adds to the run's log."""
    marks: dict[str, str | None] = {}
    notes: list[str] = []
    async with open_temporarily(object_store.S3, tool.config(), tool.credentials()) as connector:
        async for batch in connector.sync({}):
            assert batch.problem is None, batch.problem
            marks |= {entry.ref.source_id: entry.mark for entry in batch.present}
            notes += [batch.note] if batch.note else []
    return marks, notes


@pytest.mark.parametrize(("fake", "kind"), _PAGED_STORES[1:3])
@pytest.mark.parametrize("name", ["a//b.md", "a/../b.md", "tab\tb.md"])
async def test_a_name_that_obstore_does_not_accept_is_named(fake: type[FakeS3], kind: Any, name: str) -> None:
    """It counted as an outage of the store: the run was retried for a long time, and failed without the reason."""
    with serve_fake(fake()) as tool:
        tool.files = {"first.md": "one", name: "two"}
        async with open_temporarily(kind, tool.config(), tool.credentials()) as connector:
            with pytest.raises(Unreadable, match="an object named") as refused:
                await connector.check()
            (batch,) = [batch async for batch in connector.sync({})]
    assert (refused.value.code, batch.listing) == ("connector_refused", None)
    assert batch.problem is not None


@pytest.mark.parametrize(
    ("kind", "config", "credentials"),
    [
        (object_store.AZURE, {"account": "acme", "container": "bucket"}, {"accountKey": "half a key"}),
        (object_store.AZURE, {"account": "acme", "container": "bucket"}, {"sasToken": "half a token"}),
        (object_store.GCS, {"bucket": "bucket"}, {"serviceAccountKey": HALF_A_KEY}),
    ],
)
def test_credentials_that_were_copied_in_part_are_rejected(
    kind: Any, config: dict[str, Any], credentials: dict[str, Any]
) -> None:
    """They were an internal error: `obstore` refuses to sign with them before any request."""
    with pytest.raises(CredentialsRejected) as rejection:
        open_kind(kind, config, credentials)
    assert "half" not in rejection.value.message
