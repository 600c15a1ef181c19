"""Issues and merge requests with their notes. Internal notes are a document of their own, which fewer people see."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from gristmill.connectors.gitlab.api import WORK_KINDS, GitLabApi, Note, Project, WorkItem, WorkKind
from gristmill.connectors.listing.by_updated_at import UpdatedEntry, UpdatedListing, UpdatedPage
from gristmill.connectors.markup.sections import comment_section, join_sections
from gristmill.connectors.port import Document, DocumentRef, Stream

_INTERNAL = ":internal"  # at the end of an id


def internal_notes(ref: DocumentRef) -> tuple[str, ...]:
    """The id of the internal notes of an issue or merge request; none for any other document, and for the notes themselves."""
    is_work = ref.stream.kind in WORK_KINDS and not ref.source_id.endswith(_INTERNAL)
    return (f"{ref.source_id}{_INTERNAL}",) if is_work else ()


@dataclass(frozen=True)
class WorkListing(UpdatedListing):
    """Issues or merge requests of a project, for `listing.by_updated_at`."""

    api: GitLabApi
    project: Project
    work_kind: WorkKind

    @property
    def _name(self) -> str:
        return "issue" if self.work_kind == "issues" else "merge_request"

    async def fetch_page(self, since: datetime | None, page: int) -> UpdatedPage:
        """What changed since an instant."""
        works, has_more, now = await self.api.works_since(self.project.id, self.work_kind, since, page)
        return UpdatedPage([self._entry(work) for work in works], has_more, now)

    async def fetch_documents(self, entry: UpdatedEntry) -> list[Document]:
        """The documents of an entry."""
        return await self.work_documents(entry.data)

    async def work_documents(self, work: WorkItem) -> list[Document]:
        """An issue or merge request with its notes, and its internal notes if it has any."""
        notes = await self.api.notes(self.project.id, self.work_kind, work.iid)
        internal = [note for note in notes if note.is_internal]
        document = self._document(work, [note for note in notes if not note.is_internal])
        if not internal:
            return [document]
        internal_document = replace(
            document,
            ref=replace(document.ref, source_id=internal_notes(document.ref)[0]),
            title=f"Internal notes on {document.title}",
            body="\n\n".join([f"# Internal notes on {work.title}", *map(_section, internal)]),
            audience=f"{self.project.scope}:reporters",
        )
        return [document, internal_document]

    def _entry(self, work: WorkItem) -> UpdatedEntry:
        ref = self._ref(work)
        return UpdatedEntry(ref.source_id, work.updated_at, ref, work, companion_ids=internal_notes(ref))

    def _ref(self, work: WorkItem) -> DocumentRef:
        stream = Stream(self.project.scope, self.work_kind)
        return DocumentRef(f"{self._name}:{work.id}", stream, {"iid": work.iid})

    def _document(self, work: WorkItem, notes: Sequence[Note]) -> Document:
        scope, symbol = self.project.scope, "#" if self.work_kind == "issues" else "!"
        return Document(
            self._ref(work),
            title=f"{work.title} ({symbol}{work.iid})",
            body=join_sections([f"# {work.title}", work.description or "", *map(_section, notes)]),
            audience=f"{scope}:reporters" if work.confidential else f"{scope}:{self.work_kind}",
            url=work.web_url,
            updated_at=work.updated_at,
            metadata={
                "tool": "gitlab",
                "type": self._name,
                "project": self.project.path_with_namespace,
                "number": work.iid,
                "state": work.state,
                "labels": work.labels,
                **({"author": work.author.username} if work.author else {}),
            },
        )


def _section(note: Note) -> str:
    author = note.author.username if note.author else None
    return comment_section(author, note.created_at.date().isoformat(), note.body)
