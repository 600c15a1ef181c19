"""Confluence: pages, blog posts and comments, with attachments, on Cloud, Server and Data Center.

    stream              documents                                   named by
    (space, page)       pages; attachments as files below them      the page's id, which stays when it is moved or renamed
    (space, blogpost)   blog posts, the same way                    the blog post's id
    (space, comment)    comments, on the page and on its lines      the comment's id

    Cloud               pages and blog posts are listed by id and cursor (numbered.py), comments by CQL
    Data Center         everything by CQL, to the minute of a clock that is measured (minutes.py)

A comment changes nothing of its page, so it is a document of its own. What is newly attached makes its page be read again.
Who may see what is confluence_access's.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import replace
from typing import Any

from pydantic import Field

from gristmill.connectors import anchored, markup, numbered
from gristmill.connectors.atlassian import AtlassianConfig, AtlassianCredentials, a_dict, a_list
from gristmill.connectors.confluence_access import ConfluenceAccess
from gristmill.connectors.confluence_api import LIGHT_PAGE, PAGE, ConfluenceApi, instant
from gristmill.connectors.confluence_lists import Contents, Numbers, measured
from gristmill.connectors.connector import (
    Access,
    Account,
    Attachment,
    Audience,
    Batch,
    Document,
    Mark,
    Marks,
    Ref,
    Stream,
)
from gristmill.connectors.kind import Kind, OpenConnector, Surroundings
from gristmill.connectors.minutes import Minutes, Zone
from gristmill.connectors.reading import guarded
from gristmill.connectors.transport import Transport
from gristmill.errors import Gone

MARKS = 1
PAGE_KIND, BLOG, COMMENT = "page", "blogpost", "comment"
_LONG = 50_000
_FULL = "version,body.storage,space,container,ancestors"
_READ = "restrictions.read.restrictions.user,restrictions.read.restrictions.group"
_PLACED = 500


class ConfluenceConfig(AtlassianConfig):
    """What of Confluence is followed."""

    spaces: list[str] = Field(
        default=[], max_length=500, description="Spaces, as keys; all that are seen when empty."
    )
    blog_posts: bool = Field(default=True, description="Whether blog posts are followed.")
    comments: bool = Field(default=True, description="Whether comments are.")
    attachments: bool = Field(default=True, description="Whether attachments are filed below their pages.")

    @property
    def site(self) -> str:
        """The address without Cloud's /wiki, which some give and some don't."""
        return self.base_url.removesuffix("/wiki") if self.is_cloud else self.base_url


class Confluence(OpenConnector):
    """One Confluence, with what is followed of it."""

    def __init__(self, config: ConfluenceConfig, api: ConfluenceApi) -> None:
        self._config, self.api = config, api
        self._access = ConfluenceAccess(api)
        self._spaces: dict[str, dict[str, Any]] | None = None
        self._chains: dict[str, tuple[str, ...]] = {}
        self._zone: Zone | None = None

    async def close(self) -> None:
        """Close its connections."""
        await self.api.close()

    async def check(self) -> Account:
        """Who the credentials are, and how many spaces are followed."""
        me = await self.api.myself()
        return Account(me.name or me.id or "?", f"{len(await self._followed())} spaces")

    async def estimate(self, marks: Marks) -> int | None:
        """Confluence does not count."""
        return None

    async def sync(self, marks: Marks, done: Collection[Stream] = ()) -> AsyncIterator[Batch]:
        """What changed in each space."""
        for number, space in (await self._followed()).items():
            for stream in self._streams(number):
                if stream not in done:
                    async for batch in guarded(stream, self._read(space, stream, marks.get(stream))):
                        yield batch

    async def fetch(self, ref: Ref) -> Document:
        """One document as it is now, in whichever space; Gone when it is not among what is followed."""
        number, kind = ref.source_id.partition(":")[2], ref.stream.kind
        if self.api.cloud and kind != COMMENT:
            content = await self.api.content(kind, number)
            space = str(content.get("spaceId"))
            if content.get("status") != "current":
                raise Gone(f"{ref.source_id} is no longer there.")
        else:
            content = await self._by_cql(number, kind)
            space = str(a_dict(content.get("space")).get("id"))
        stream = Stream(f"space:{space}", kind)
        if space not in await self._followed() or stream not in self._streams(space):
            raise Gone(f"{ref.source_id} is in a space that is not followed.")
        return await self.document(content, stream)

    async def access(self, audiences: Sequence[str]) -> AsyncIterator[Access]:
        """Who sees each space and restricted page now, and what became restricted or open."""
        for number, space in (await self._followed()).items():
            if any(key.split(":")[1] == number for key in audiences):
                access = ConfluenceAccess(self.api)
                placed = await self._placed(access, number, space)
                keys = sorted({f"space:{number}", *placed.values()})
                yield Access([await access.audience(space, key) for key in keys])
                pairs = list(placed.items())
                for start in range(0, len(pairs), _PLACED):
                    yield Access(placed=dict(pairs[start : start + _PLACED]))

    async def download(self, attachment: Attachment) -> AsyncIterator[bytes]:
        """The bytes of an attachment."""
        async for piece in self.api.download(attachment.locator):
            yield piece

    # ── scopes ───────────────────────────────────────────────────────────────────────────────────────────

    async def _followed(self) -> dict[str, dict[str, Any]]:
        if self._spaces is None:
            found: dict[str, dict[str, Any]] = {}
            if not self._config.spaces:
                async for space in self.api.spaces():
                    found[str(space.get("id"))] = space
            for key in self._config.spaces:
                try:
                    space = await self.api.space(key)
                except Gone:
                    space = None  # what it had is asked for once more, and pruned
                if space is not None:
                    found[str(space.get("id"))] = space
            self._spaces = dict(sorted(found.items()))
        return self._spaces

    def _streams(self, space: str) -> list[Stream]:
        config = self._config
        kinds = [PAGE_KIND, *([BLOG] if config.blog_posts else []), *([COMMENT] if config.comments else [])]
        return [Stream(f"space:{space}", kind) for kind in kinds]

    async def _read(self, space: dict[str, Any], stream: Stream, mark: Mark | None) -> AsyncIterator[Batch]:
        if self._zone is None:
            self._zone = await measured(self.api)
        contents = Contents(
            self, space, stream, self._zone, attached=self._config.attachments, first=_is_first(mark)
        )
        if self.api.cloud and stream.kind != COMMENT:
            batches = numbered.read(stream, MARKS, mark, Numbers(contents))
        else:
            batches = anchored.read(stream, MARKS, mark, Minutes(contents, mark))
        told: set[str] = set()
        async for batch in batches:
            named = {document.audience for document in batch.documents}
            # A run may bring no document: who sees those of earlier runs is told anyway.
            keys = named - told if told else named | {stream.scope}
            told |= keys
            audiences: list[Audience] = [await self._access.audience(space, key) for key in sorted(keys)]
            # One that changed, and had something attached, was read twice.
            once = {document.ref.source_id: document for document in batch.documents}
            yield replace(batch, audiences=audiences, documents=list(once.values()))

    # ── one document ─────────────────────────────────────────────────────────────────────────────────────

    async def document(self, content: dict[str, Any], stream: Stream) -> Document:
        """A page, blog post or comment, as version 1 or 2 tells of it."""
        number, kind = str(content.get("id")), stream.kind
        container = a_dict(content.get("container"))
        title = markup.clean(str(content.get("title") or ""))
        if kind == COMMENT:
            title = markup.clean(f"Re: {container.get('title') or title}")
        version = a_dict(content.get("version"))
        storage = str(a_dict(a_dict(content.get("body")).get("storage")).get("value") or "")
        text = await self._text(storage)
        space = stream.scope.partition(":")[2]
        return Document(
            Ref(f"{kind}:{number}", stream, {"id": number}),
            title=title or number,
            body=text if kind == COMMENT else f"# {title}\n\n{text}".strip(),
            audience=await self._access.key(space, await self._chain(kind, content)),
            url=self._url(content),
            updated_at=instant(version.get("createdAt") or version.get("when")),
            metadata={"type": kind, "space": str((await self._followed())[space].get("key"))},
            attachments=await self._attached(kind, number),
        )

    async def _text(self, storage: str) -> str:
        if len(storage) < _LONG:
            return markup.storage(storage)
        return await asyncio.to_thread(markup.storage, storage)

    async def _chain(self, kind: str, content: dict[str, Any]) -> tuple[str, ...]:
        """What must let somebody in: the page itself, and all that it lies in."""
        number = str(content.get("id"))
        if kind != COMMENT:
            if isinstance(content.get("ancestors"), list):
                above = [str(a_dict(one).get("id")) for one in a_list(content["ancestors"])]
            else:
                above = await self.api.ancestors(kind, number)
            self._chains[number] = (*above, number)
            await self._access.learn(content)
            return self._chains[number]
        container = a_dict(content.get("container"))
        page = str(container.get("id"))
        if page not in self._chains:
            if self.api.cloud:
                above = await self.api.ancestors(str(container.get("type")), page)
                self._chains[page] = (*above, page)
            else:
                found = await self.api.by_id(page, "ancestors")
                told = a_list(found.get("ancestors"))
                self._chains[page] = (*(str(a_dict(one).get("id")) for one in told), page)
        return self._chains[page]

    def _url(self, content: dict[str, Any]) -> str | None:
        webui = a_dict(content.get("_links")).get("webui")
        if not isinstance(webui, str):
            return None
        return f"{self._config.site}{'/wiki' if self.api.cloud else ''}{webui}"

    async def _attached(self, kind: str, number: str) -> tuple[Attachment, ...]:
        if kind == COMMENT or not self._config.attachments:
            return ()
        found: list[Attachment] = []
        for file in await self.api.attachments(kind, number):
            name = str(file.get("title") or file.get("id"))
            version = a_dict(file.get("version")).get("number") or 1
            size = file.get("fileSize") or a_dict(file.get("extensions")).get("fileSize")
            media = file.get("mediaType") or a_dict(file.get("extensions")).get("mediaType")
            found.append(
                Attachment(
                    f"attachment:{file.get('id')}:{version}",
                    markup.clean(name),
                    size if isinstance(size, int) else None,
                    str(media) if media else None,
                    {"page": number, "id": str(file.get("id")),
                     "download": str(a_dict(file.get("_links")).get("download") or "")},
                )
            )  # fmt: skip
        return tuple(sorted(found, key=lambda one: one.source_id))

    async def _by_cql(self, number: str, kind: str) -> dict[str, Any]:
        part = await self.api.search(f"id = {number} and type = {kind}", _FULL, 1, None)
        if not part.results:
            raise Gone(f"{kind}:{number} is no longer there.")
        return part.results[0]

    # ── who may see what ─────────────────────────────────────────────────────────────────────────────────

    async def _placed(self, access: ConfluenceAccess, number: str, space: dict[str, Any]) -> dict[str, str]:
        """The audience of everything in a space, by its restrictions now."""
        kinds = ", ".join(stream.kind for stream in self._streams(number) if stream.kind != COMMENT)
        chains: dict[str, tuple[str, ...]] = {}
        placed: dict[str, str] = {}
        expand = f"ancestors,{_READ}"
        for content in await self._every(f'space = "{space["key"]}" and type in ({kinds})', expand, PAGE):
            own = str(content.get("id"))
            await access.learn(content)
            chains[own] = (*(str(a_dict(one).get("id")) for one in a_list(content.get("ancestors"))), own)
            placed[f"{content.get('type')}:{own}"] = ""
        for source in placed:
            placed[source] = await access.key(number, chains[source.partition(":")[2]])
        if self._config.comments:
            cql = f'space = "{space["key"]}" and type = comment'
            for comment in await self._every(cql, "container", LIGHT_PAGE):
                page = str(a_dict(comment.get("container")).get("id"))
                if page in chains:
                    placed[f"comment:{comment.get('id')}"] = await access.key(number, chains[page])
        return placed

    async def _every(self, cql: str, expand: str, limit: int) -> list[dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        cursor: str | None = None
        while True:
            part = await self.api.search(f"{cql} order by created asc", expand, limit, cursor)
            before = len(found)
            found |= {str(one.get("id")): one for one in part.results}
            if part.more is None or part.more == cursor or (part.results and len(found) == before):
                return list(found.values())
            cursor = part.more


def _is_first(mark: Mark | None) -> bool:
    """Whether no run has read this stream to its end."""
    return mark is None or not (mark.position.get("watermark") or mark.position.get("from"))


def open_confluence(
    config: ConfluenceConfig, credentials: AtlassianCredentials, surroundings: Surroundings
) -> Confluence:
    """A connector to the Confluence that is configured."""
    transport = Transport(
        config.site,
        headers={"Accept": "application/json", **credentials.headers()},
        private=surroundings.private,
        patience=surroundings.patience,
    )
    return Confluence(config, ConfluenceApi(transport, cloud=config.is_cloud))


KIND = Kind("confluence", ConfluenceConfig, AtlassianCredentials, open_confluence, MARKS)
