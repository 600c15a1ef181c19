"""Confluence: pages, blog posts and comments, with attachments, on Cloud, Server and Data Center.

    stream              documents                                   named by
    (space, page)       pages; attachments as files below them      the page's id, which stays when it is moved or renamed
    (space, blogpost)   blog posts, the same way                    the blog post's id
    (space, comment)    comments, on the page and on its lines      the comment's id

    Cloud               pages and blog posts are listed by id (listing/by_id.py), comments by CQL
    Data Center         everything by CQL, in minutes of a measured time zone (listing/by_minute.py)
    both                listed pages and blog posts are read fifty at a time, with all that belongs to them (content_loader.py)

A comment does not change its page, so it is a document of its own. A new attachment makes its page be read again. `access.py`
resolves who may see what.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import replace
from typing import Any

from pydantic import Field

from gristmill.connectors import markup
from gristmill.connectors.atlassian import AtlassianConfig, AtlassianCredentials
from gristmill.connectors.confluence.access import RESTRICTIONS_EXPAND, ConfluenceAccess
from gristmill.connectors.confluence.ancestors import AncestorResolver
from gristmill.connectors.confluence.api import IDS_PAGE_SIZE, PAGE_SIZE, ConfluenceApi
from gristmill.connectors.confluence.content_loader import ContentLoader, inline_attachments
from gristmill.connectors.confluence.queries import (
    ContentIdListing,
    ContentQuery,
    measure_time_zone,
)
from gristmill.connectors.json_values import as_dict, as_list, parse_time
from gristmill.connectors.listing import by_id, by_updated_at
from gristmill.connectors.listing.by_minute import ByMinuteListing, UserTimeZone
from gristmill.connectors.port import (
    AccessUpdate,
    Account,
    Attachment,
    Audience,
    Batch,
    Checkpoint,
    Checkpoints,
    Connector,
    ConnectorKind,
    ConnectorLimits,
    Document,
    DocumentRef,
    Stream,
)
from gristmill.connectors.streams import FollowedNames, errors_as_problems
from gristmill.errors import SourceGone, Unreadable

CHECKPOINT_VERSION = 1
PAGE_KIND, BLOG, COMMENT = "page", "blogpost", "comment"
_LONG_BODY = 50_000
_FULL_EXPAND = "version,body.storage,space,container,ancestors"
_ACCESS_BATCH = 500


class ConfluenceConfig(AtlassianConfig):
    """What to follow in Confluence."""

    spaces: list[str] = Field(
        default=[], max_length=500, description="Spaces, as keys; empty for all that the credentials can see."
    )
    blog_posts: bool = Field(default=True, description="Whether to follow blog posts.")
    comments: bool = Field(default=True, description="Whether to follow comments.")
    attachments: bool = Field(default=True, description="Whether to store attachments below their pages.")

    @property
    def site(self) -> str:
        """The address without the /wiki of Cloud, which users may or may not include."""
        return self.base_url.removesuffix("/wiki") if self.is_cloud else self.base_url


class ConfluenceConnector(Connector):
    """One Confluence, with what is followed of it."""

    def __init__(self, config: ConfluenceConfig, api: ConfluenceApi) -> None:
        super().__init__(api.transport)
        self._config, self.api = config, api
        self._access, self.ancestors = ConfluenceAccess(api), AncestorResolver(api)
        self.loader = ContentLoader(api, self._access, self.ancestors, with_attachments=config.attachments)
        self._spaces: dict[str, dict[str, Any]] | None = None
        self._zone: UserTimeZone | None = None
        self._names = FollowedNames("space", "spaces")
        self._attachment_pages: dict[str, tuple[str, str]] = {}  # type and id of what attachments belong to
        # At the gateway, the address that people open is asked for.
        self._wiki = "" if config.is_gateway else f"{config.site}{'/wiki' if api.cloud else ''}"

    async def check(self) -> Account:
        """Who the credentials belong to, and how many spaces are followed."""
        account = await self.api.current_user()
        return Account(account.name or account.id or "?", f"{len(await self._find_spaces())} spaces")

    async def find_problems(self) -> list[str]:
        """Spaces that Confluence does not show."""
        return self._names.problems(await self._find_spaces())

    async def sync(self, checkpoints: Checkpoints, finished: Collection[Stream] = ()) -> AsyncIterator[Batch]:
        """What changed in each space."""
        for number, space in (await self._find_spaces()).items():
            for stream in self._streams(number):
                if stream not in finished:
                    async for batch in errors_as_problems(
                        stream, self._read_stream(space, stream, checkpoints.get(stream))
                    ):
                        yield batch

    async def fetch(self, ref: DocumentRef) -> Document:
        """One document as it is now, in whichever space; SourceGone when it is not followed."""
        number, kind = ref.source_id.partition(":")[2], ref.stream.kind
        if self.api.cloud and kind != COMMENT:
            content = await self.api.content(kind, number)
            space, status = content.get("spaceId"), content.get("status")
        else:
            content = await self._fetch_by_cql(number, kind)
            space, status = as_dict(content.get("space")).get("id"), "current"
        if str(content.get("id")) != number or space is None or status is None:
            raise Unreadable(
                f"Confluence returned something else than {ref.source_id}.", code="connector_refused"
            )
        if status != "current":
            raise SourceGone(f"{ref.source_id} is no longer there.")
        self.ancestors.record_parents([content])
        return await self._build_if_followed(ref, content, str(space))

    async def load(self, ref: DocumentRef, version: int | None = None) -> Document:
        """One document as it is now; requested together with others that were announced to the loader."""
        content = await self.loader.load(str(ref.locator["id"]))
        number = None if content is None else as_dict(content.get("version")).get("number")
        is_older = version is not None and (not isinstance(number, int) or number < version)
        if content is None or content.get("type") != ref.stream.kind or is_older:
            return await self.fetch(ref)
        return await self._build_if_followed(ref, content, str(as_dict(content.get("space")).get("id")))

    async def _build_if_followed(self, ref: DocumentRef, content: dict[str, Any], space: str) -> Document:
        stream = Stream(f"space:{space}", ref.stream.kind)
        if space not in await self._find_spaces() or stream not in self._streams(space):
            raise SourceGone(f"{ref.source_id} is in a space that is not followed.")
        return await self.build_document(content, stream)

    async def resolve_access(self, audience_keys: Sequence[str]) -> AsyncIterator[AccessUpdate]:
        """Who sees each space and restricted page now, and which documents got another audience."""
        resolver = ConfluenceAccess(self.api)
        for number, space in (await self._find_spaces()).items():
            if any(key.split(":")[1] == number for key in audience_keys):
                audience_by_source = await self._find_audiences(resolver, number, space)
                keys = sorted({f"space:{number}", *audience_by_source.values()})
                yield AccessUpdate([await resolver.audience(space, key) for key in keys])
                pairs = list(audience_by_source.items())
                for start in range(0, len(pairs), _ACCESS_BATCH):
                    yield AccessUpdate(audience_by_source=dict(pairs[start : start + _ACCESS_BATCH]))

    async def download(self, attachment: Attachment) -> AsyncIterator[bytes]:
        """The bytes of an attachment."""
        async for piece in self.api.download(attachment.locator):
            yield piece

    # ── spaces ───────────────────────────────────────────────────────────────────────────────────────────

    async def _find_spaces(self) -> dict[str, dict[str, Any]]:
        if self._spaces is None:
            spaces: dict[str, dict[str, Any]] = {}
            if not self._config.spaces:
                async for space in self.api.spaces():
                    spaces[str(space.get("id"))] = space
            for key in self._config.spaces:
                with self._names.looking_up(key):
                    if (space := await self.api.space(key)) is None:
                        self._names.note_missing(key)
                    else:
                        spaces[str(space.get("id"))] = space
            self._names.require_any(spaces)
            self._spaces = dict(sorted(spaces.items()))
        return self._spaces

    def _streams(self, space: str) -> list[Stream]:
        config = self._config
        kinds = [PAGE_KIND, *([BLOG] if config.blog_posts else []), *([COMMENT] if config.comments else [])]
        return [Stream(f"space:{space}", kind) for kind in kinds]

    async def _read_stream(
        self, space: dict[str, Any], stream: Stream, checkpoint: Checkpoint | None
    ) -> AsyncIterator[Batch]:
        if self._zone is None:
            self._zone = await measure_time_zone(self.api)
        query = ContentQuery(
            self,
            space,
            stream,
            self._zone,
            with_attachments=self._config.attachments,
            is_first_run=_is_first_run(checkpoint),
        )
        if self.api.cloud and stream.kind != COMMENT:
            batches = by_id.read(stream, CHECKPOINT_VERSION, checkpoint, ContentIdListing(query))
        else:
            batches = by_updated_at.read(
                stream, CHECKPOINT_VERSION, checkpoint, ByMinuteListing(query, checkpoint)
            )
        known_keys: set[str] = set()
        async for batch in batches:
            batch_keys = {document.audience for document in batch.documents}
            # Even a run without documents resolves who sees those of earlier runs.
            new_keys = batch_keys - known_keys if known_keys else batch_keys | {stream.scope}
            known_keys |= new_keys
            audiences: list[Audience] = [await self._access.audience(space, key) for key in sorted(new_keys)]
            # A page that changed and got an attachment was read twice.
            documents = {document.ref.source_id: document for document in batch.documents}
            yield replace(batch, audiences=audiences, documents=list(documents.values()))

    # ── one document ─────────────────────────────────────────────────────────────────────────────────────

    async def build_document(self, content: dict[str, Any], stream: Stream) -> Document:
        """A page, blog post or comment, from version 1 or 2 of the API."""
        number, kind = str(content.get("id")), stream.kind
        container = as_dict(content.get("container"))
        title = markup.strip_unstorable(str(content.get("title") or ""))
        if kind == COMMENT:
            title = markup.strip_unstorable(f"Re: {container.get('title') or title}")
        version = as_dict(content.get("version"))
        storage = str(as_dict(as_dict(content.get("body")).get("storage")).get("value") or "")
        text = await self._to_markdown(storage)
        space = stream.scope.partition(":")[2]
        return Document(
            DocumentRef(f"{kind}:{number}", stream, {"id": number}),
            title=title or number,
            body=text if kind == COMMENT else f"# {title}\n\n{text}".strip(),
            audience=await self._access.audience_key(space, await self._chain(kind, content)),
            url=await self._url(content),
            updated_at=parse_time(version.get("createdAt") or version.get("when")),
            metadata={"type": kind, "space": str((await self._find_spaces())[space].get("key"))},
            attachments=await self._attachments(kind, content),
        )

    async def _to_markdown(self, storage: str) -> str:
        if len(storage) < _LONG_BODY:
            return markup.storage(storage)
        return await asyncio.to_thread(markup.storage, storage)

    async def _chain(self, kind: str, content: dict[str, Any]) -> tuple[str, ...]:
        """The pages whose restrictions apply: the page itself, and all its ancestors; of a comment, those of its page."""
        if kind == COMMENT:
            return await self.ancestors.chain(*await self._page_of_comment(as_dict(content.get("container"))))
        self.ancestors.record_ancestors(content)
        await self._access.cache_restrictions(content)
        return await self.ancestors.chain(kind, str(content.get("id")))

    async def _page_of_comment(self, container: dict[str, Any]) -> tuple[str, str]:
        """The type and id of the page or blog post that a comment is on, also of one on an attachment."""
        kind, number = str(container.get("type") or PAGE_KIND), str(container.get("id"))
        if kind == "attachment":
            if number not in self._attachment_pages:
                self._attachment_pages[number] = await self.api.attachment_page(number)
            kind, number = self._attachment_pages[number]
        if kind not in (PAGE_KIND, BLOG):
            raise Unreadable("Confluence does not say which page a comment is on.", code="connector_refused")
        return kind, number

    async def _url(self, content: dict[str, Any]) -> str | None:
        webui = as_dict(content.get("_links")).get("webui")
        if not isinstance(webui, str):
            return None
        if not self._wiki:
            self._wiki = (await self.api.site_url()).rstrip("/")
        return f"{self._wiki}{webui}"

    async def _attachments(self, kind: str, content: dict[str, Any]) -> tuple[Attachment, ...]:
        if kind == COMMENT or not self._config.attachments:
            return ()
        number = str(content.get("id"))
        files = inline_attachments(content)
        attachments: list[Attachment] = []
        for file in await self.api.attachments(kind, number) if files is None else files:
            name = str(file.get("title") or file.get("id"))
            version = as_dict(file.get("version")).get("number") or 1
            size = file.get("fileSize") or as_dict(file.get("extensions")).get("fileSize")
            media = file.get("mediaType") or as_dict(file.get("extensions")).get("mediaType")
            attachments.append(
                Attachment(
                    f"attachment:{file.get('id')}:{version}",
                    markup.strip_unstorable(name),
                    size if isinstance(size, int) else None,
                    str(media) if media else None,
                    {"page": number, "id": str(file.get("id")),
                     "download": str(as_dict(file.get("_links")).get("download") or "")},
                )
            )  # fmt: skip
        return tuple(sorted(attachments, key=lambda attachment: attachment.source_id))

    async def _fetch_by_cql(self, number: str, kind: str) -> dict[str, Any]:
        """A content by a search. What that does not find is asked for by its id: an index that is being rebuilt has little."""
        page = await self.api.search(f"id = {number} and type = {kind}", _FULL_EXPAND, 1, None)
        if page.results:
            return page.results[0]
        if not self.api.cloud:
            content = await self.api.by_id(number, _FULL_EXPAND)
            if content.get("type") == kind and content.get("status") == "current":
                return content
        elif await self.api.has_comment(number):
            raise Unreadable(
                f"Confluence has {kind}:{number}, but its search does not find it.", code="connector_refused"
            )
        raise SourceGone(f"{kind}:{number} is no longer there.")

    # ── who may see what ─────────────────────────────────────────────────────────────────────────────────

    async def _find_audiences(
        self, resolver: ConfluenceAccess, number: str, space: dict[str, Any]
    ) -> dict[str, str]:
        """The audience of every document in a space, by its current restrictions."""
        kinds = ", ".join(stream.kind for stream in self._streams(number) if stream.kind != COMMENT)
        chains: dict[str, tuple[str, ...]] = {}
        audience_by_source: dict[str, str] = {}
        expand = f"ancestors,{RESTRICTIONS_EXPAND}"
        for content in await self._search_all(
            f'space = "{space["key"]}" and type in ({kinds})', expand, PAGE_SIZE
        ):
            content_id = str(content.get("id"))
            await resolver.cache_restrictions(content)
            if content.get("type") == PAGE_KIND and not isinstance(content.get("ancestors"), list):
                resolver.close(content_id)
            chains[content_id] = (
                *(str(as_dict(ancestor).get("id")) for ancestor in as_list(content.get("ancestors"))),
                content_id,
            )
            audience_by_source[f"{content.get('type')}:{content_id}"] = ""
        for source in audience_by_source:
            audience_by_source[source] = await resolver.audience_key(number, chains[source.partition(":")[2]])
        if self._config.comments:
            cql = f'space = "{space["key"]}" and type = comment'
            for comment in await self._search_all(cql, "container", IDS_PAGE_SIZE):
                try:
                    _, page = await self._page_of_comment(as_dict(comment.get("container")))
                except (SourceGone, Unreadable):
                    continue
                if page in chains:
                    audience_by_source[f"comment:{comment.get('id')}"] = await resolver.audience_key(
                        number, chains[page]
                    )
        return audience_by_source

    async def _search_all(self, cql: str, expand: str, limit: int) -> list[dict[str, Any]]:
        contents: dict[str, dict[str, Any]] = {}
        cursor: str | None = None
        while True:
            page = await self.api.search(f"{cql} order by created asc", expand, limit, cursor)
            before = len(contents)
            contents |= {str(content.get("id")): content for content in page.results}
            if (
                page.next_cursor is None
                or page.next_cursor == cursor
                or (page.results and len(contents) == before)
            ):
                return list(contents.values())
            cursor = page.next_cursor


def _is_first_run(checkpoint: Checkpoint | None) -> bool:
    """Whether no run has read this stream to its end yet."""
    return checkpoint is None or not (checkpoint.position.get("watermark") or checkpoint.position.get("from"))


def _open(config: ConfluenceConfig, credentials: AtlassianCredentials, limits: ConnectorLimits) -> Connector:
    transport = limits.transport(config.site, credentials.headers())
    return ConfluenceConnector(config, ConfluenceApi(transport, cloud=config.is_cloud))


KIND = ConnectorKind(
    "confluence", ConfluenceConfig, AtlassianCredentials, _open, CHECKPOINT_VERSION, "Confluence"
)
