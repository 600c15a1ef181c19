"""What people do while processes are killed, and what must be searchable because of it.

Every document has an `identity` word that it keeps for life and a `revision` word that each edit replaces, so that
the chunks alone show which documents exist, with which content. A request is repeated with the same Idempotency-Key until it
is answered. A change outside (a page, a file, a tool) is followed by a request that makes Gristmill read it.
"""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx

from bench.chaos.outside import Outside
from tests.connectors.fakes.tool import FakeTool
from tests.readers import samples

NEVER = "0 0 29 2 *"
_MAX_DOCUMENTS = 120  # of each kind; more are deleted first
_LONG_SECTIONS = 330  # over half a megabyte: enough text for the offload process
_RETRY_CODES = {"idempotency_in_progress"}


@dataclass
class Document:
    """A document that should be searchable."""

    kind: str
    base: str
    name: str
    identity: str
    revision: str
    sections: int = 1
    item_id: str | None = None


@dataclass
class ToolSource:
    """A fake tool with its connector; `dirty` if something changed that no accepted run will see."""

    tool: FakeTool
    connector: str
    base: str
    dirty: bool = True


class ActionFailed(Exception):
    """A request was refused, or no server answered it within the time that restarts may take."""


@dataclass
class Api:
    """The API of a server that is killed now and then."""

    http: httpx.AsyncClient
    keys: random.Random
    patience: float = 240.0

    async def change(self, method: str, path: str, **more: Any) -> tuple[int, Any]:
        """Send a change until it is answered; the status, and the response if it was not lost."""
        headers = {"Idempotency-Key": str(UUID(int=self.keys.getrandbits(128), version=4))}
        return await self._send(method, path, headers=headers, **more)

    async def read(self, path: str, **params: Any) -> Any:
        """A response to GET."""
        status, body = await self._send("GET", path, params=params)
        if status != 200:
            raise ActionFailed(f"GET {path}: {status} {body}")
        return body

    async def _send(self, method: str, path: str, **more: Any) -> tuple[int, Any]:
        deadline = asyncio.get_running_loop().time() + self.patience
        problem: object = None
        while asyncio.get_running_loop().time() < deadline:
            try:
                response = await self.http.request(method, f"/api{path}", **more)
            except httpx.HTTPError as error:
                problem = error
            else:
                body: Any = response.json() if response.content else None
                if (
                    response.status_code < 500
                    and response.status_code != 429
                    and _code(body) not in _RETRY_CODES
                ):
                    return response.status_code, body
                problem = response.text
            await asyncio.sleep(0.2)
        raise ActionFailed(f"{method} {path} was not answered for {self.patience:.0f} s: {problem!r}")


@dataclass
class Workload:
    """Makes changes one after the other, and knows the result that they must have."""

    api: Api
    outside: Outside
    folder: Path
    rng: random.Random
    bases: list[str] = field(default_factory=list[str])
    documents: dict[str, Document] = field(default_factory=dict[str, Document])  # by name
    sources: list[ToolSource] = field(default_factory=list[ToolSource])
    dead_words: set[str] = field(default_factory=set[str])
    folder_base: str = ""
    folder_item: str | None = None
    actions: int = 0
    _count: int = 0

    async def set_up(self) -> None:
        """Create the bases, the folder and the connectors."""
        for name in ("first", "second"):
            self.bases.append(await self._create_base(name))
        self.folder_base = await self._create_base("folder")
        for _ in range(3):
            self._write_file()
        result = await self._add(self.folder_base, {"type": "directory", "path": str(self.folder)})
        self.folder_item = result or await self._find_item(self.folder_base, self.folder.name)
        for tool in self.outside.tools:
            base = await self._create_base(tool.kind)
            status, connector = await self.api.change(
                "POST",
                "/connectors",
                json={
                    "name": tool.kind, "type": tool.kind, "config": tool.config(), "credentials": tool.credentials(),
                    "knowledgeBaseIds": [base], "schedule": NEVER, "aclSchedule": NEVER,
                },
            )  # fmt: skip
            if status != 201:
                raise ActionFailed(f"the connector was refused: {connector}")
            self.sources.append(ToolSource(tool, connector["id"], base))

    async def run_next(self) -> None:
        """Choose an action, and carry it out."""
        act = self.rng.choices(list(_ACTIONS), list(_ACTIONS.values()))[0]
        await act(self)
        self.actions += 1

    async def finish(self) -> None:
        """Start a last run of every tool that has changed since its last one."""
        while dirty := [source for source in self.sources if source.dirty]:
            for source in dirty:
                await self._start_run(source)
            await asyncio.sleep(0.5)

    # ── what people do ───────────────────────────────────────────────────────────────────────────────────

    async def add_note(self) -> None:
        """Add a note; sometimes a long one."""
        await self._forget_if_full("note")
        document = self._new_document("note", sections=_LONG_SECTIONS if self.rng.random() < 0.05 else 1)
        await self._put_note(document)

    async def edit_note(self) -> None:
        """Replace the text of a note."""
        if document := self._pick("note"):
            self._revise(document)
            await self._put_note(document)

    async def upload(self) -> None:
        """Upload a file that a reader must read."""
        await self._forget_if_full("upload")
        document = self._new_document("upload", self.rng.choice([".docx", ".pdf", ".html", ".md"]))
        await self._put_upload(document)

    async def replace_upload(self) -> None:
        """Upload another version of a file."""
        if document := self._pick("upload"):
            self._revise(document)
            await self._put_upload(document)

    async def add_page(self) -> None:
        """Publish a web page, and add it."""
        await self._forget_if_full("page")
        document = self._new_document("page")
        url = self._publish(document)
        document.item_id = await self._add(document.base, {"type": "url", "url": url})

    async def edit_page(self) -> None:
        """Change a web page, and have it read again."""
        if document := self._pick("page"):
            self._revise(document)
            self._publish(document)
            await self._reindex(document.base, await self._item_id(document))

    async def change_folder(self) -> None:
        """Change some files of the folder, and have it read again."""
        files = [document for document in self.documents.values() if document.kind == "file"]
        for document in self.rng.sample(files, min(2, len(files))):
            if self.rng.random() < 0.4:
                (self.folder / document.name).unlink()
                self._forget(document)
            else:
                self._revise(document)
                (self.folder / document.name).write_bytes(_encode(document))
        for _ in range(2 if len(files) < _MAX_DOCUMENTS else 0):
            self._write_file()
        if self.folder_item is not None:
            await self._reindex(self.folder_base, self.folder_item)

    async def reindex(self) -> None:
        """Have a document indexed again that has not changed."""
        if document := self._pick("note", "upload"):
            await self._reindex(document.base, await self._item_id(document))

    async def delete(self) -> None:
        """Delete a document."""
        if document := self._pick("note", "upload", "page"):
            await self._delete(document)

    async def change_tool(self) -> None:
        """Change things in a tool, and run its connector."""
        source = self.rng.choice(self.sources)
        with source.tool.lock:
            for _ in range(self.rng.randint(1, 3)):
                change: Callable[[int], None] = self.rng.choice(
                    [
                        source.tool.edit,
                        source.tool.edit,
                        source.tool.delete,
                        lambda _, t=source.tool: t.add(),
                    ]
                )
                change(self.rng.randrange(1000))
            source.tool.advance_clock(61)
        source.dirty = True
        await self._start_run(source)

    # ── how ──────────────────────────────────────────────────────────────────────────────────────────────

    async def _start_run(self, source: ToolSource) -> None:
        path = f"/connectors/{source.connector}/sync"
        status, answer = await self.api.change("POST", path, json={"allowDeletions": True})
        # 409: a run is under way, which may have read too early; `finish` starts another.
        if status == 202 or _code(answer) == "idempotency_answer_lost":
            source.dirty = False

    async def _create_base(self, name: str) -> str:
        status, base = await self.api.change("POST", "/knowledge-bases", json={"name": name})
        if status != 201:
            raise ActionFailed(f"the base was refused: {base}")
        return base["id"]

    async def _put_note(self, document: Document) -> None:
        note = {"type": "note", "title": document.name, "content": _text(document)}
        document.item_id = await self._add(document.base, note, onConflict="replace")

    async def _put_upload(self, document: Document) -> None:
        path = f"/knowledge-bases/{document.base}/files"
        files = {"files": (document.name, _encode(document))}
        answer = await self.api.change("POST", path, files=files, data={"onConflict": "replace"})
        document.item_id = _created_id(*answer)

    async def _add(self, base: str, item: dict[str, Any], **more: Any) -> str | None:
        return _created_id(
            *await self.api.change("POST", f"/knowledge-bases/{base}/items", json={"items": [item], **more})
        )

    async def _reindex(self, base: str, item_id: str) -> None:
        body = {"itemIds": [item_id], "onActive": "after"}
        status, answer = await self.api.change("POST", f"/knowledge-bases/{base}/items/reindex", json=body)
        if status != 202 and _code(answer) != "idempotency_answer_lost":
            raise ActionFailed(f"a re-index was refused: {status} {answer}")

    async def _delete(self, document: Document) -> None:
        item_id = await self._item_id(document)
        path = f"/knowledge-bases/{document.base}/items/delete"
        status, answer = await self.api.change("POST", path, json={"itemIds": [item_id]})
        if status != 202 and _code(answer) != "idempotency_answer_lost":
            raise ActionFailed(f"a deletion was refused: {status} {answer}")
        self._forget(document)

    async def _item_id(self, document: Document) -> str:
        if document.item_id is None:
            document.item_id = await self._find_item(document.base, document.name)
        return document.item_id

    async def _find_item(self, base: str, name: str) -> str:
        page = await self.api.read(f"/knowledge-bases/{base}/items", q=name, parentId="*")
        if len(page["items"]) != 1:
            raise ActionFailed(f"{len(page['items'])} items are called {name}")
        return page["items"][0]["id"]

    def _new_document(self, kind: str, suffix: str = "", sections: int = 1) -> Document:
        identity, revision = self._new_word(), self._new_word()
        base = self.folder_base if kind == "file" else self.rng.choice(self.bases)
        document = Document(kind, base, f"{kind}-{identity}{suffix}", identity, revision, sections)
        self.documents[document.name] = document
        return document

    def _write_file(self) -> None:
        document = self._new_document("file", self.rng.choice([".md", ".html", ".docx"]))
        (self.folder / document.name).write_bytes(_encode(document))

    def _publish(self, document: Document) -> str:
        page = _html(document)
        return self.outside.site.add_page(f"/{document.name}", page, Content_Type="text/html; charset=utf-8")

    def _revise(self, document: Document) -> None:
        self.dead_words.add(document.revision)
        document.revision = self._new_word()

    def _forget(self, document: Document) -> None:
        self.dead_words |= {document.identity, document.revision}
        del self.documents[document.name]

    async def _forget_if_full(self, kind: str) -> None:
        documents = [document for document in self.documents.values() if document.kind == kind]
        if len(documents) >= _MAX_DOCUMENTS:
            await self._delete(self.rng.choice(documents))

    def _pick(self, *kinds: str) -> Document | None:
        documents = [document for document in self.documents.values() if document.kind in kinds]
        return self.rng.choice(documents) if documents else None

    def _new_word(self) -> str:
        """A word that was never used, and that no stemmer changes."""
        self._count += 1
        number, letters = self._count, ""
        while number:
            number, digit = divmod(number, 20)
            letters += "bcdfghjklmnpqrstvwzy"[digit]
        return f"q{letters}ox"


_ACTIONS: dict[Callable[[Workload], Awaitable[None]], int] = {
    Workload.add_note: 6,
    Workload.edit_note: 6,
    Workload.upload: 4,
    Workload.replace_upload: 3,
    Workload.add_page: 2,
    Workload.edit_page: 2,
    Workload.change_folder: 2,
    Workload.reindex: 3,
    Workload.delete: 4,
    Workload.change_tool: 2,
}


async def work_until(workload: Workload, stop: asyncio.Event, pause: tuple[float, float]) -> None:
    """Carry out actions until `stop`."""
    while not stop.is_set():
        await workload.run_next()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), workload.rng.uniform(*pause))


def _code(answer: Any) -> str | None:
    """The code of a problem document."""
    return answer.get("code") if isinstance(answer, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def _created_id(status: int, answer: Any) -> str | None:
    """The id of the only item that a request created; None if the response was lost."""
    if status == 409 and _code(answer) == "idempotency_answer_lost":
        return None
    if status != 202 or len(answer["created"]) != 1:
        raise ActionFailed(f"an item was refused: {status} {answer}")
    return answer["created"][0]["id"]


def _text(document: Document) -> str:
    filler = " ".join(f"grain {document.revision} flour" for _ in range(90 if document.sections > 1 else 4))
    return "\n\n".join(
        f"# Part {number} of {document.identity}\n\nRevision {document.revision}. {filler}"
        for number in range(document.sections)
    )


def _html(document: Document) -> str:
    body = f"<h1>{document.name}</h1><p>The page {document.identity}, revision {document.revision}, about mills.</p>"
    return f"<!doctype html><html><head><title>{document.name}</title></head><body>{body}</body></html>"


def _encode(document: Document) -> bytes:
    line = f"The file {document.identity}, revision {document.revision}, about mills."
    match Path(document.name).suffix:
        case ".docx":
            return samples.docx(samples.paragraph(line))
        case ".pdf":
            return samples.pdf([line])
        case ".html":
            return _html(document).encode()
        case _:
            return f"# {document.name}\n\n{line}\n".encode()
