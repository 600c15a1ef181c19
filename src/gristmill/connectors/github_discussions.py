"""GitHub's discussions, which GraphQL alone has.

All are listed by cursor in the order of their change, ids and times alone; those that changed since the watermark are read
one by one. The list is a complete one. A cursor goes by value: what is edited meanwhile moves to the end and is met again.

    position    {"watermark", "done"}                between runs; `done` need not be read again
                {"watermark", "cursor", "newest", "done"}    in the middle of one; `done` are read of the next page
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from gristmill.connectors.connector import Audience, Batch, Document, Json, Mark, Ref, Stream
from gristmill.connectors.details import in_order
from gristmill.connectors.github_api import GitHubApi, Repository
from gristmill.errors import Gone, Unreadable

KIND = "discussion"
# What GitHub shows late, or changes twice within a second, is read again.
_OVERLAP = timedelta(seconds=2)

_LIST = """query($owner: String!, $name: String!, $after: String) {
  repository(owner: $owner, name: $name) {
    discussions(first: 100, after: $after, orderBy: {field: UPDATED_AT, direction: ASC}) {
      pageInfo { hasNextPage endCursor }
      nodes { databaseId number updatedAt } } } }"""

_ONE = """query($owner: String!, $name: String!, $number: Int!, $after: String) {
  repository(owner: $owner, name: $name) {
    discussion(number: $number) {
      databaseId number title body url updatedAt
      author { login } category { name }
      comments(first: 50, after: $after) {
        pageInfo { hasNextPage endCursor }
        nodes { databaseId body createdAt author { login }
          replies(first: 100) { nodes { databaseId body createdAt author { login } } } } } } } }"""


class _Info(BaseModel):
    more: bool = Field(alias="hasNextPage")
    end: str | None = Field(default=None, alias="endCursor")


class _Listed(BaseModel):
    id: int = Field(alias="databaseId")
    number: int
    updated: datetime = Field(alias="updatedAt")


class _Login(BaseModel):
    login: str


class _Reply(BaseModel):
    body: str = ""
    created: datetime = Field(alias="createdAt")
    author: _Login | None = None


class _Replies(BaseModel):
    nodes: list[_Reply] = []


class _Comment(_Reply):
    replies: _Replies = _Replies()


class _Comments(BaseModel):
    info: _Info = Field(alias="pageInfo")
    nodes: list[_Comment] = []


class _Category(BaseModel):
    name: str


class _Discussion(_Listed):
    title: str
    body: str = ""
    url: str
    author: _Login | None = None
    category: _Category | None = None
    comments: _Comments


@dataclass(frozen=True)
class Discussions:
    """The discussions of a repository."""

    api: GitHubApi
    repository: Repository

    async def read(
        self, stream: Stream, version: int, mark: Mark | None, audiences: Sequence[Audience]
    ) -> AsyncIterator[Batch]:
        """The batches of the stream."""
        position: Json = {} if mark is None else dict(mark.position)
        watermark = position.get("watermark")
        since = None if watermark is None else datetime.fromisoformat(watermark) - _OVERLAP
        cursor: str | None = position.get("cursor")
        newest: str | None = position.get("newest") or watermark
        first, done = "newest" not in position, set[str](position.get("done", ()))
        while True:
            info, entries = await self._page(cursor)
            changed = [one for one in entries if since is None or one.updated >= since]
            changed = [one for one in changed if _key(one) not in done]
            found = await in_order(changed, self._ref, self._documents)
            read = changed[: found.reached]
            # What changed a moment ago may change again within the same second.
            settled = [one for one in read if one.updated < self.api.now - _OVERLAP]
            done |= {_key(one) for one in settled}
            if found.stopped is None:
                cursor = info.end
                stamps = [one.updated.isoformat() for one in entries]
                newest = max([*stamps, newest or ""]) or None
            last = found.stopped is None and not info.more
            on: Json = {
                "watermark": watermark,
                "cursor": cursor,
                "newest": newest,
                "done": _kept(done, newest),
            }
            told: Json = {"watermark": newest, "done": _kept(done, newest)} if last else on
            yield Batch(
                stream,
                mark=Mark(version, told),
                documents=found.documents,
                failures=found.failures,
                audiences=audiences if first else (),
                present=[self._ref(one).source_id for one in entries],
                listing=("at_once" if last else "begin") if first else ("whole" if last else "goes_on"),
            )
            first = False
            if found.stopped is not None:
                raise found.stopped
            if last:
                return

    async def fetch(self, ref: Ref) -> Document:
        """One discussion as it is now."""
        found = await self._one(int(ref.locator["number"]))
        if self._ref(found).source_id != ref.source_id:
            raise Gone(f"{ref.source_id} is no longer there.")
        return self._document(found)

    async def _documents(self, one: _Listed) -> list[Document]:
        return [self._document(await self._one(one.number))]

    async def _page(self, cursor: str | None) -> tuple[_Info, list[_Listed]]:
        found = await self._ask(_LIST, after=cursor)
        try:
            told = found["discussions"]
            return _Info.model_validate(told["pageInfo"]), [
                _Listed.model_validate(one) for one in told["nodes"]
            ]
        except (KeyError, TypeError, ValidationError):
            raise Unreadable(
                "GitHub's list of discussions is not as described.", code="connector_refused"
            ) from None

    async def _one(self, number: int) -> _Discussion:
        whole: _Discussion | None = None
        after: str | None = None
        while True:
            found = (await self._ask(_ONE, number=number, after=after)).get("discussion")
            if found is None:
                raise Gone(f"Discussion {number} is not there.")
            try:
                part = _Discussion.model_validate(found)
            except ValidationError:
                raise Unreadable(
                    f"Discussion {number} is not as described.", code="connector_refused"
                ) from None
            if whole is None:
                whole = part
            else:
                whole.comments.nodes += part.comments.nodes
            if not part.comments.info.more:
                return whole
            after = part.comments.info.end

    async def _ask(self, query: str, **variables: Any) -> Any:
        owner, _, name = self.repository.full_name.partition("/")
        found = await self.api.graphql(query, owner=owner, name=name, **variables)
        if not found or found.get("repository") is None:
            raise Gone(f"{self.repository.full_name} is not there.")
        return found["repository"]

    def _ref(self, one: _Listed) -> Ref:
        locator = {"repository": self.repository.full_name, "number": one.number}
        return Ref(f"discussion:{one.id}", Stream(self.repository.scope, KIND), locator)

    def _document(self, one: _Discussion) -> Document:
        parts = [f"# {one.title}", one.body]
        for comment in one.comments.nodes:
            parts.append(_said(comment, "##"))
            parts += [_said(reply, "###") for reply in comment.replies.nodes]
        return Document(
            self._ref(one),
            title=f"{one.title} (#{one.number})",
            body="\n\n".join(part for part in parts if part).replace("\r\n", "\n"),
            audience=self.repository.scope,
            url=one.url,
            updated_at=one.updated,
            metadata={
                "tool": "github",
                "type": KIND,
                "repository": self.repository.full_name,
                "number": one.number,
                **({"author": one.author.login} if one.author else {}),
                **({"category": one.category.name} if one.category else {}),
            },
        )


def _key(one: _Listed) -> str:
    return f"{one.updated.isoformat()} {one.id}"


def _kept(done: set[str], newest: str | None) -> list[str]:
    """Of what was read, that which the overlap brings up again."""
    if newest is None:
        return []
    start = (datetime.fromisoformat(newest) - _OVERLAP).isoformat()
    return sorted(key for key in done if key >= start)


def _said(reply: _Reply, level: str) -> str:
    who = reply.author.login if reply.author else "somebody"
    return f"{level} {who}, {reply.created.date().isoformat()}\n\n{reply.body}"
