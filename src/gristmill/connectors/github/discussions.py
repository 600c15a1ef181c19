"""GitHub's discussions, which only the GraphQL API has.

All discussions are listed by cursor, oldest change first, with ids and times only; those that changed since the watermark are
read one by one. The list is complete. The cursor goes by value: a discussion that is edited meanwhile moves to the end and is
met again.

    position    {"watermark", "done"}                between runs; `done` need not be read again
                {"watermark", "cursor", "newest", "done"}    in the middle of one; `done` are those of the next page that were read
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from gristmill.connectors.github.api import GitHubApi, Repository
from gristmill.connectors.listing.details import fetch_all
from gristmill.connectors.markup.sections import comment_section, join_sections
from gristmill.connectors.port import (
    Audience,
    Batch,
    Checkpoint,
    Document,
    DocumentRef,
    Json,
    ListedDocument,
    Stream,
    listing_step,
)
from gristmill.errors import SourceGone, Unreadable

DISCUSSION = "discussion"
# Covers what GitHub shows late, and second changes within the same second.
_OVERLAP = timedelta(seconds=2)

_LIST_QUERY = """query($owner: String!, $name: String!, $after: String) {
  repository(owner: $owner, name: $name) {
    discussions(first: 100, after: $after, orderBy: {field: UPDATED_AT, direction: ASC}) {
      pageInfo { hasNextPage endCursor }
      nodes { databaseId number updatedAt } } } }"""

_DISCUSSION_QUERY = """query($owner: String!, $name: String!, $number: Int!, $after: String) {
  repository(owner: $owner, name: $name) {
    discussion(number: $number) {
      databaseId number title body url updatedAt
      author { login } category { name }
      comments(first: 50, after: $after) {
        pageInfo { hasNextPage endCursor }
        nodes { databaseId body createdAt author { login }
          replies(first: 100) { nodes { databaseId body createdAt author { login } } } } } } } }"""


class _PageInfo(BaseModel):
    has_next: bool = Field(alias="hasNextPage")
    end_cursor: str | None = Field(default=None, alias="endCursor")


class _DiscussionEntry(BaseModel):
    id: int = Field(alias="databaseId")
    number: int
    updated_at: datetime = Field(alias="updatedAt")


class _Author(BaseModel):
    login: str


class _Reply(BaseModel):
    body: str = ""
    created_at: datetime = Field(alias="createdAt")
    author: _Author | None = None


class _Replies(BaseModel):
    nodes: list[_Reply] = []


class _DiscussionComment(_Reply):
    replies: _Replies = _Replies()


class _Comments(BaseModel):
    info: _PageInfo = Field(alias="pageInfo")
    nodes: list[_DiscussionComment] = []


class _Category(BaseModel):
    name: str


class _Discussion(_DiscussionEntry):
    title: str
    body: str = ""
    url: str
    author: _Author | None = None
    category: _Category | None = None
    comments: _Comments


@dataclass(frozen=True)
class Discussions:
    """The discussions of a repository."""

    api: GitHubApi
    repository: Repository

    async def read(
        self, stream: Stream, version: int, checkpoint: Checkpoint | None, audiences: Sequence[Audience]
    ) -> AsyncIterator[Batch]:
        """The batches of the stream."""
        position: Json = {} if checkpoint is None else dict(checkpoint.position)
        watermark = position.get("watermark")
        since = None if watermark is None else datetime.fromisoformat(watermark) - _OVERLAP
        cursor: str | None = position.get("cursor")
        newest: str | None = position.get("newest") or watermark
        first, done_keys = "newest" not in position, set[str](position.get("done", ()))
        while True:
            info, entries = await self._fetch_page(cursor)
            changed = [entry for entry in entries if since is None or entry.updated_at >= since]
            changed = [entry for entry in changed if _key(entry) not in done_keys]
            result = await fetch_all(changed, self._ref, self._fetch_documents)
            fetched = changed[: result.handled]
            # An entry that changed a moment ago may change again within the same second.
            stable = [entry for entry in fetched if entry.updated_at < self.api.server_now - _OVERLAP]
            done_keys |= {_key(entry) for entry in stable}
            if result.stopped_by is None:
                cursor = info.end_cursor
                stamps = [entry.updated_at.isoformat() for entry in entries]
                newest = max([*stamps, newest or ""]) or None
            is_last = result.stopped_by is None and not info.has_next
            resume_position: Json = {
                "watermark": watermark,
                "cursor": cursor,
                "newest": newest,
                "done": _keys_in_overlap(done_keys, newest),
            }
            next_position: Json = (
                {"watermark": newest, "done": _keys_in_overlap(done_keys, newest)}
                if is_last
                else resume_position
            )
            yield Batch(
                stream,
                checkpoint=Checkpoint(version, next_position),
                documents=result.documents,
                failures=result.failures,
                audiences=audiences if first else (),
                present=[ListedDocument(self._ref(entry)) for entry in entries],
                listing=listing_step(is_first=first, is_last=is_last),
            )
            first = False
            if result.stopped_by is not None:
                raise result.stopped_by
            if is_last:
                return

    async def fetch(self, ref: DocumentRef) -> Document:
        """One discussion as it is now."""
        discussion = await self._fetch_discussion(int(ref.locator["number"]))
        if self._ref(discussion).source_id != ref.source_id:
            raise SourceGone(f"{ref.source_id} is no longer there.")
        return self._document(discussion)

    async def _fetch_documents(self, entry: _DiscussionEntry) -> list[Document]:
        return [self._document(await self._fetch_discussion(entry.number))]

    async def _fetch_page(self, cursor: str | None) -> tuple[_PageInfo, list[_DiscussionEntry]]:
        data = await self._query(_LIST_QUERY, after=cursor)
        try:
            discussions = data["discussions"]
            return _PageInfo.model_validate(discussions["pageInfo"]), [
                _DiscussionEntry.model_validate(node) for node in discussions["nodes"]
            ]
        except (KeyError, TypeError, ValidationError):
            raise Unreadable(
                "GitHub returned an unexpected list of discussions.", code="connector_refused"
            ) from None

    async def _fetch_discussion(self, number: int) -> _Discussion:
        discussion: _Discussion | None = None
        after: str | None = None
        while True:
            data = (await self._query(_DISCUSSION_QUERY, number=number, after=after)).get("discussion")
            if data is None:
                raise SourceGone(f"Discussion {number} is no longer there.")
            try:
                part = _Discussion.model_validate(data)
            except ValidationError:
                raise Unreadable(
                    f"GitHub returned something unexpected for discussion {number}.", code="connector_refused"
                ) from None
            if discussion is None:
                discussion = part
            else:
                discussion.comments.nodes += part.comments.nodes
            if not part.comments.info.has_next:
                return discussion
            after = part.comments.info.end_cursor

    async def _query(self, query: str, **variables: Any) -> Any:
        owner, _, name = self.repository.full_name.partition("/")
        data = await self.api.graphql(query, owner=owner, name=name, **variables)
        if not data or data.get("repository") is None:
            raise SourceGone(f"{self.repository.full_name} is no longer there.")
        return data["repository"]

    def _ref(self, entry: _DiscussionEntry) -> DocumentRef:
        locator = {"repository": self.repository.full_name, "number": entry.number}
        return DocumentRef(f"discussion:{entry.id}", Stream(self.repository.scope, DISCUSSION), locator)

    def _document(self, discussion: _Discussion) -> Document:
        sections = [f"# {discussion.title}", discussion.body]
        for comment in discussion.comments.nodes:
            sections.append(_section(comment, level=2))
            sections += [_section(reply, level=3) for reply in comment.replies.nodes]
        return Document(
            self._ref(discussion),
            title=f"{discussion.title} (#{discussion.number})",
            body=join_sections(sections),
            audience=self.repository.scope,
            url=discussion.url,
            updated_at=discussion.updated_at,
            metadata={
                "tool": "github",
                "type": DISCUSSION,
                "repository": self.repository.full_name,
                "number": discussion.number,
                **({"author": discussion.author.login} if discussion.author else {}),
                **({"category": discussion.category.name} if discussion.category else {}),
            },
        )


def _key(entry: _DiscussionEntry) -> str:
    return f"{entry.updated_at.isoformat()} {entry.id}"


def _keys_in_overlap(done: set[str], newest: str | None) -> list[str]:
    """Of the discussions that were read, those that the overlap lists again."""
    if newest is None:
        return []
    start = (datetime.fromisoformat(newest) - _OVERLAP).isoformat()
    return sorted(key for key in done if key >= start)


def _section(reply: _Reply, *, level: int) -> str:
    author = reply.author.login if reply.author else None
    return comment_section(author, reply.created_at.date().isoformat(), reply.body, level=level)
