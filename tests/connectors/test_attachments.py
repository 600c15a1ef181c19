"""Attachments: children of their record, fetched once, limited in size, gone with what they hung on."""

from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass, field, replace

import pytest

from gristmill import app
from gristmill.connectors import admin, model, registry
from gristmill.connectors.port import (
    AccessUpdate,
    Account,
    Attachment,
    Audience,
    Batch,
    Checkpoints,
    Connector,
    ConnectorForm,
    ConnectorKind,
    ConnectorLimits,
    Document,
    DocumentRef,
    Stream,
)
from gristmill.errors import SourceGone, Transient
from gristmill.identity import LOCAL_ORG, OrgId
from gristmill.operations import bases
from gristmill.vault import Vault
from tests.connectors.fakes.tool import FakeTool
from tests.connectors.harness import NEVER, ConnectorHarness
from tests.embedding.hashed import HashedEmbedder
from tests.server.clients import new_organisation
from tests.wait_until import wait_until

pytestmark = pytest.mark.slow

STREAM = Stream("box:1", "letter")


@dataclass
class Box:
    """A tool with letters in it, and files that hang on them."""

    letters: dict[str, Document] = field(default_factory=dict[str, Document])
    files: dict[str, bytes] = field(default_factory=dict[str, bytes])
    fetched: list[str] = field(default_factory=list[str])
    down: bool = False

    def put(self, key: str, text: str, *names: str) -> None:
        hung = tuple(Attachment(f"file:{name}", name, len(self.files[name])) for name in names)
        self.letters[key] = Document(DocumentRef(f"letter:{key}", STREAM), key, text, "all", attachments=hung)


class BoxConnector(Connector):
    """Reads a box."""

    def __init__(self, box: Box) -> None:
        self.box = box

    async def close(self) -> None: ...

    async def check(self) -> Account:
        return Account("box")

    async def estimate(self, checkpoints: Checkpoints) -> int | None:
        return len(self.box.letters)

    async def sync(self, checkpoints: Checkpoints, finished: Collection[Stream] = ()) -> AsyncIterator[Batch]:
        letters = list(self.box.letters.values())
        yield Batch(STREAM, documents=letters, audiences=[Audience("all", everybody=True)], listing="single")

    async def fetch(self, ref: DocumentRef) -> Document:
        for letter in self.box.letters.values():
            if letter.ref.source_id == ref.source_id:
                return letter
        raise SourceGone("It is not there.")

    async def resolve_access(self, audience_keys: Sequence[str]) -> AsyncIterator[AccessUpdate]:
        yield AccessUpdate([Audience("all", everybody=True)])

    async def download(self, attachment: Attachment) -> AsyncIterator[bytes]:
        if self.box.down:
            raise Transient("The box is shut.", code="connector_unavailable")
        self.box.fetched.append(attachment.name)
        yield self.box.files[attachment.name]


@pytest.fixture
def box(monkeypatch: pytest.MonkeyPatch) -> Box:
    made = Box()

    def opened(config: ConnectorForm, credentials: ConnectorForm, surroundings: ConnectorLimits) -> Connector:
        return BoxConnector(made)

    monkeypatch.setitem(registry.KINDS, "box", ConnectorKind("box", ConnectorForm, ConnectorForm, opened))
    return made


@pytest.fixture
async def harness(mill: app.Gristmill, box: Box) -> ConnectorHarness:
    """A connector to the box."""
    return await of_organisation(mill, LOCAL_ORG)


async def of_organisation(mill: app.Gristmill, org: OrgId) -> ConnectorHarness:
    base = await bases.create(mill.db, "b", HashedEmbedder(), {}, org=org)
    new = model.NewConnector("box", "box", {}, {}, NEVER, NEVER, base_ids=[base.id])
    vault = Vault(mill.settings.secret_key, mill.settings.data_dir)
    return ConnectorHarness(
        mill, FakeTool(), base, await admin.create(mill.db, vault, mill.connectors, new, org)
    )


async def hung(harness: ConnectorHarness) -> dict[str, tuple[str, str, list[str] | None]]:
    """The files below records: their title, the record, their state."""
    rows = await harness.fetch(
        "select f.title, r.title, f.status, (select o.acl from item o where o.id = f.acl_from) from item f"
        " join item r on r.id = f.parent_id and r.type = 'record'"
        " where f.type = 'file' and f.status <> 'deleting'"
    )
    return {row[0]: (row[1], row[2], row[3]) for row in rows}


async def test_attachments_are_children_fetched_once_and_seen_by_the_same_eyes(
    harness: ConnectorHarness, box: Box
) -> None:
    box.files = {"a.txt": b"first words", "b.txt": b"second words"}
    box.put("one", "a letter", "a.txt", "b.txt")
    run = await harness.sync()
    assert run.status == "success", await harness.log_text(run)
    assert await hung(harness) == {
        "a.txt": ("one", "completed", ["org:*"]),
        "b.txt": ("one", "completed", ["org:*"]),
    }
    box.put("one", "a letter, changed", "b.txt")
    await harness.sync()
    assert set(await hung(harness)) == {"b.txt"}
    assert box.fetched == ["a.txt", "b.txt"]

    async def one_blob() -> bool:
        return len(await harness.fetch("select 1 from blob")) == 1

    await wait_until(one_blob)


async def test_equal_attachments_of_two_organisations_are_two_blobs(
    harness: ConnectorHarness, box: Box, mill: app.Gristmill
) -> None:
    """One blob for both would reveal to each organisation, by its receipts, that the other has the same file."""
    box.files = {"a.txt": b"first words"}
    box.put("one", "a letter", "a.txt")
    await harness.sync()
    other = await of_organisation(mill, await new_organisation(mill.db, "theirs"))
    run = await other.sync()
    assert run.status == "success", await other.log_text(run)
    assert len(await harness.fetch("select 1 from blob")) == 2
    assert (
        len(await harness.fetch("select 1 from content group by hash")) == 4
    )  # of each, a letter and a file


async def test_what_is_gone_there_goes_with_its_attachments(harness: ConnectorHarness, box: Box) -> None:
    box.files = {"a.txt": b"first words"}
    box.put("one", "a letter", "a.txt")
    box.put("two", "another")
    await harness.sync()
    del box.letters["one"]
    await harness.sync()

    async def gone() -> bool:
        return (
            await harness.fetch("select 1 from item where type = 'file' union all select 1 from blob") == []
        )

    await wait_until(gone)
    assert set(await harness.indexed_documents()) == {"letter:two"}


async def test_an_attachment_that_is_too_large_is_skipped_and_logged(
    harness: ConnectorHarness, box: Box
) -> None:
    box.files = {"a.txt": b"x"}
    box.put("one", "a letter", "a.txt")
    letter = box.letters["one"]
    large = replace(letter.attachments[0], size=1 << 40)
    box.letters["one"] = replace(letter, attachments=(large,))
    run = await harness.sync()
    assert (run.status, run.item_errors) == ("completed_with_errors", 1)
    assert "a.txt" in await harness.log_text(run)
    assert (await harness.sync()).status == "success"  # it is logged once, and not retried
    assert box.fetched == []


async def test_one_that_can_not_be_had_now_is_fetched_by_the_next_run(
    harness: ConnectorHarness, box: Box
) -> None:
    box.files = {"a.txt": b"first words"}
    box.put("one", "a letter", "a.txt")
    box.down = True
    run = await harness.sync()
    assert run.status == "completed_with_errors"
    assert set(await harness.indexed_documents()) == {"letter:one"}
    box.down = False
    run = await harness.sync()
    assert run.status == "success", await harness.log_text(run)
    assert set(await hung(harness)) == {"a.txt"}
