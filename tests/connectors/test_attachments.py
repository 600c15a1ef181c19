"""Attachments: children of their record, fetched once, limited in size, and removed with their record."""

from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass, field, replace

import pytest

from gristmill import app, catalog
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
from gristmill.operations.delete import delete
from tests.connectors.fakes.tool import FakeTool
from tests.connectors.harness import NEVER, ConnectorHarness, vault_of
from tests.embedding.hashed import HashedEmbedder
from tests.server.clients import new_organisation
from tests.wait_until import wait_until

pytestmark = pytest.mark.slow

STREAM = Stream("box:1", "letter")


@dataclass
class Box:
    """A tool with letters, which have files attached."""

    letters: dict[str, Document] = field(default_factory=dict[str, Document])
    files: dict[str, bytes] = field(default_factory=dict[str, bytes])
    downloads: list[str] = field(default_factory=list[str])
    down: bool = False
    refusals: int = 0  # of downloads, from now on

    def add_letter(self, key: str, text: str, *names: str) -> None:
        attachments = tuple(Attachment(f"file:{name}", name, len(self.files[name])) for name in names)
        self.letters[key] = Document(
            DocumentRef(f"letter:{key}", STREAM), key, text, "all", attachments=attachments
        )


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
        self.box.refusals -= 1
        if self.box.down or self.box.refusals >= 0:
            raise Transient("The box is shut.", code="connector_unavailable")
        self.box.downloads.append(attachment.name)
        yield self.box.files[attachment.name]


@pytest.fixture
def box(monkeypatch: pytest.MonkeyPatch) -> Box:
    fake = Box()

    def open_connector(
        config: ConnectorForm, credentials: ConnectorForm, limits: ConnectorLimits
    ) -> Connector:
        return BoxConnector(fake)

    monkeypatch.setitem(
        registry.KINDS, "box", ConnectorKind("box", ConnectorForm, ConnectorForm, open_connector)
    )
    return fake


@pytest.fixture
async def harness(mill: app.Gristmill, box: Box) -> ConnectorHarness:
    """A connector to the box."""
    return await create_harness(mill, LOCAL_ORG)


async def create_harness(mill: app.Gristmill, org: OrgId) -> ConnectorHarness:
    base = await bases.create(mill.db, "b", HashedEmbedder(), {}, org=org)
    new = model.NewConnector("box", "box", {}, {}, NEVER, NEVER, base_ids=[base.id])
    return ConnectorHarness(
        mill, FakeTool(), base, await admin.create(mill.db, vault_of(mill), mill.connectors, new, org)
    )


async def attachments_by_name(harness: ConnectorHarness) -> dict[str, tuple[str, str, list[str] | None]]:
    """The files below records, by title: the record's title, the status and the ACL."""
    rows = await harness.fetch(
        "select f.title, r.title, f.status, (select o.acl from item o where o.id = f.acl_from) from item f"
        " join item r on r.id = f.parent_id and r.type = 'record'"
        " where f.type = 'file' and f.status <> 'deleting'"
    )
    return {row[0]: (row[1], row[2], row[3]) for row in rows}


async def test_attachments_are_children_fetched_once_and_visible_to_the_same_users(
    harness: ConnectorHarness, box: Box
) -> None:
    box.files = {"a.txt": b"first words", "b.txt": b"second words"}
    box.add_letter("one", "a letter", "a.txt", "b.txt")
    run = await harness.sync()
    assert run.status == "success", await harness.log_text(run)
    assert await attachments_by_name(harness) == {
        "a.txt": ("one", "completed", ["org:*"]),
        "b.txt": ("one", "completed", ["org:*"]),
    }
    box.add_letter("one", "a letter, changed", "b.txt")
    await harness.sync()
    assert set(await attachments_by_name(harness)) == {"b.txt"}
    assert box.downloads == ["a.txt", "b.txt"]

    async def has_one_blob() -> bool:
        return len(await harness.fetch("select 1 from blob")) == 1

    await wait_until(has_one_blob)


async def test_a_document_with_an_audience_that_no_one_has_described_is_closed(
    harness: ConnectorHarness, box: Box
) -> None:
    """It had another audience before: that one's access list does not stay, neither on the record nor on its files."""
    box.files = {"a.txt": b"first words"}
    box.add_letter("one", "a letter", "a.txt")
    box.add_letter("two", "another")
    await harness.sync()
    box.letters["one"] = replace(box.letters["one"], audience="few", body="not for all")
    run = await harness.sync()
    assert "Who may see few could not be found out" in await harness.log_text(run)
    acls = {key: document.acl for key, document in (await harness.indexed_documents()).items()}
    assert acls == {"letter:one": frozenset(), "letter:two": frozenset({"org:*"})}
    assert (await attachments_by_name(harness))["a.txt"][2] == []


async def test_equal_attachments_of_two_organisations_are_two_blobs(
    harness: ConnectorHarness, box: Box, mill: app.Gristmill
) -> None:
    """One blob for both would reveal to each organisation, by its receipts, that the other has the same file."""
    box.files = {"a.txt": b"first words"}
    box.add_letter("one", "a letter", "a.txt")
    await harness.sync()
    second_harness = await create_harness(mill, await new_organisation(mill.db, "theirs"))
    run = await second_harness.sync()
    assert run.status == "success", await second_harness.log_text(run)
    assert len(await harness.fetch("select 1 from blob")) == 2
    assert (
        len(await harness.fetch("select 1 from content group by hash")) == 4
    )  # a letter and a file of each organisation


async def test_a_record_deleted_in_the_tool_is_removed_with_its_attachments(
    harness: ConnectorHarness, box: Box
) -> None:
    box.files = {"a.txt": b"first words"}
    box.add_letter("one", "a letter", "a.txt")
    box.add_letter("two", "another")
    await harness.sync()
    del box.letters["one"]
    await harness.sync()

    async def is_removed() -> bool:
        return (
            await harness.fetch("select 1 from item where type = 'file' union all select 1 from blob") == []
        )

    await wait_until(is_removed)
    assert set(await harness.indexed_documents()) == {"letter:two"}


async def test_an_attachment_that_was_renamed_in_the_tool_stays_the_same_item(
    harness: ConnectorHarness, box: Box
) -> None:
    """It is not downloaded again; a title that a person gave it stays."""
    box.files = {"a.txt": b"first words", "b.txt": b"second words"}
    box.add_letter("one", "a letter", "a.txt", "b.txt")
    await harness.sync()
    query = "select id, title, source ->> 'name' from item where type = 'file' and status <> 'deleting' order by 3"
    before = await harness.fetch(query)
    async with harness.mill.db.transaction() as tx:
        await catalog.set_title(tx, before[1][0], "Mine", None)
    letter = box.letters["one"]
    renamed = tuple(replace(each, name=f"new-{each.name}") for each in letter.attachments)
    box.letters["one"] = replace(letter, attachments=renamed)
    run = await harness.sync()
    assert run.status == "success", await harness.log_text(run)
    (first, second) = (row[0] for row in before)
    assert await harness.fetch(query) == [(first, "new-a.txt", "new-a.txt"), (second, "Mine", "new-b.txt")]
    assert box.downloads == ["a.txt", "b.txt"]
    assert {entry[1] for entry in (await attachments_by_name(harness)).values()} == {"completed"}


async def test_characters_that_can_not_be_stored_keep_no_document_out(
    harness: ConnectorHarness, box: Box
) -> None:
    """The sender of a mail can put any of them into a header, and all documents of its batch were refused with it."""
    odd = "a\0b\ud800"
    box.files = {f"{odd}.txt": b"first words"}
    box.add_letter("one", "a letter")
    box.add_letter("two", "another")
    file = Attachment("file:1", f"{odd}.txt")
    box.letters["one"] = replace(
        box.letters["one"],
        title=odd,
        url=f"http://box/{odd}",
        metadata={"from": odd, "to": [{odd: odd}]},
        attachments=(file,),
    )
    run = await harness.sync()
    assert run.status == "success", await harness.log_text(run)
    rows = await harness.fetch(
        "select title, metadata, source ->> 'url' from item where source_key = 'letter:one'"
    )
    assert rows == [("ab?", {"from": "ab?", "to": [{"ab?": "ab?"}]}, "http://box/ab?")]
    assert set(await attachments_by_name(harness)) == {"ab?.txt"}
    box.letters["two"] = replace(box.letters["two"], attachments=(replace(file, size=1 << 40),))
    run = await harness.sync()
    assert (run.status, run.item_errors) == ("completed_with_errors", 1), await harness.log_text(run)


async def test_an_attachment_that_is_too_large_is_skipped_and_logged(
    harness: ConnectorHarness, box: Box
) -> None:
    box.files = {"a.txt": b"x"}
    box.add_letter("one", "a letter", "a.txt")
    letter = box.letters["one"]
    large = replace(letter.attachments[0], size=1 << 40)
    box.letters["one"] = replace(letter, attachments=(large,))
    run = await harness.sync()
    assert (run.status, run.item_errors) == ("completed_with_errors", 1)
    assert "a.txt" in await harness.log_text(run)
    assert (await harness.sync()).status == "success"  # it is logged once, and not retried
    assert box.downloads == []


async def test_a_base_that_is_added_later_gets_the_attachments_too(
    harness: ConnectorHarness, box: Box
) -> None:
    """The documents are known and unchanged; a record that someone deleted there is no reason to download its attachments."""
    box.files = {"a.txt": b"first words", "b.txt": b"second words"}
    box.add_letter("one", "a letter", "a.txt")
    box.add_letter("two", "another", "b.txt")
    await harness.sync()
    second_base = await bases.create(harness.mill.db, "second", HashedEmbedder(), {})
    await harness.change(base_ids=[harness.base.id, second_base.id])
    run = await harness.sync()
    assert run.status == "success", await harness.log_text(run)
    query = (
        "select f.title, f.status from item f where f.base_id = %s and f.type = 'file' and f.status <> 'deleting'"
        " order by 1"
    )
    for base in (harness.base, second_base):
        assert await harness.fetch(query, base.id) == [("a.txt", "completed"), ("b.txt", "completed")]
    box.downloads.clear()
    rows = await harness.fetch(
        "select id from item where base_id = %s and source_key = 'letter:one'", second_base.id
    )
    await delete(harness.mill.db, second_base.id, [rows[0][0]])
    await harness.sync()
    assert box.downloads == []
    assert await harness.fetch(query, second_base.id) == [("b.txt", "completed")]


async def test_an_attachment_that_fails_to_download_is_fetched_by_the_next_run(
    harness: ConnectorHarness, box: Box
) -> None:
    box.files = {"a.txt": b"first words"}
    box.add_letter("one", "a letter", "a.txt")
    box.down = True
    run = await harness.sync()
    assert run.status == "completed_with_errors"
    assert set(await harness.indexed_documents()) == {"letter:one"}
    box.down = False
    run = await harness.sync()
    assert run.status == "success", await harness.log_text(run)
    assert set(await attachments_by_name(harness)) == {"a.txt"}


async def test_a_letter_whose_attachments_all_come_in_the_end_counts_as_no_error(
    harness: ConnectorHarness, box: Box
) -> None:
    """Two failed downloads are one letter, which is read again before the run ends."""
    box.files = {"a.txt": b"first words", "b.txt": b"second words"}
    box.add_letter("one", "a letter", "a.txt", "b.txt")
    box.refusals = 2
    run = await harness.sync()
    assert (run.status, run.item_errors) == ("success", 0), await harness.log_text(run)
    assert set(await attachments_by_name(harness)) == {"a.txt", "b.txt"}
