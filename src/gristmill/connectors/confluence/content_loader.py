"""Reads many contents with few requests: each comes with its body, attachments, restrictions and, on Data Center, ancestors.

Contents that will be read next are requested together, by their ids, when the first of them is needed. What the search does
not return (its index can be some seconds behind, or the response would be too large) is read by requests of its own.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from gristmill.connectors.confluence.access import RESTRICTIONS_EXPAND, ConfluenceAccess
from gristmill.connectors.confluence.ancestors import AncestorResolver
from gristmill.connectors.confluence.api import PAGE_SIZE, ConfluenceApi
from gristmill.connectors.json_values import as_dict, as_list
from gristmill.connectors.transport import CredentialsRejected, RateLimited
from gristmill.errors import GristmillError, SourceGone, Transient, Unreadable

_DEFAULT_INLINE_LIMIT = 25  # attachments that come with a content


@dataclass
class _IdBatch:
    """Contents that are requested together."""

    numbers: Sequence[str]
    contents: dict[str, dict[str, Any]] | None = None
    error: GristmillError | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class ContentLoader:
    """Loads contents of one Confluence, with what decides who may see them."""

    def __init__(
        self,
        api: ConfluenceApi,
        access: ConfluenceAccess,
        ancestors: AncestorResolver,
        *,
        with_attachments: bool,
    ) -> None:
        self._api, self._access, self._ancestors = api, access, ancestors
        parts = ["version", "body.storage", "space", "container", RESTRICTIONS_EXPAND]
        parts += [] if api.cloud else ["ancestors"]
        parts += ["children.attachment.version"] if with_attachments else []
        self._expand = ",".join(parts)
        self._batches: dict[str, _IdBatch] = {}
        self._containers: dict[str, str] = {}  # kind by id, of pages whose comments will be read next
        self._containers_lock = asyncio.Lock()

    def expect(self, numbers: Iterable[str]) -> None:
        """These contents will be loaded next, in this order."""
        unique = list(dict.fromkeys(numbers))
        self._batches = {}
        for start in range(0, len(unique), PAGE_SIZE):
            batch = _IdBatch(unique[start : start + PAGE_SIZE])
            self._batches |= dict.fromkeys(batch.numbers, batch)

    async def load(self, number: str) -> dict[str, Any] | None:
        """A content that was announced by `expect`; None if the search does not return it."""
        batch = self._batches.pop(number, None)
        if batch is None:
            return None
        async with batch.lock:
            if batch.error is not None:
                raise batch.error
            if batch.contents is None:
                try:
                    batch.contents = await self._request(batch.numbers)
                except GristmillError as error:
                    batch.error = error
                    raise
        return batch.contents.pop(number, None)

    def expect_comments(self, containers: Iterable[tuple[str, str]]) -> None:
        """Comments of these pages and blog posts (kind and id) will be read next."""
        self._containers |= {number: kind for kind, number in containers}

    async def load_containers(self) -> None:
        """Look up ancestors and restrictions of what the announced comments are on."""
        async with self._containers_lock:
            containers, self._containers = self._containers, {}
            pages = [number for number, kind in containers.items() if kind == "page"]
            if self._api.cloud:
                await self._ancestors.load_parents(pages)
            else:
                unknown = [number for number in pages if self._ancestors.chain_if_known(number) is None]
                await self._load_ancestors(unknown)
            await self._load_restrictions(containers)

    async def _request(self, numbers: Sequence[str]) -> dict[str, dict[str, Any]]:
        try:
            contents = await self._api.search_ids(numbers, self._expand)
        except (RateLimited, CredentialsRejected):
            raise
        except (SourceGone, Unreadable, Transient):
            return {}  # each is read by itself: one that can't be read must not hold up the others
        for content in contents.values():
            self._ancestors.record_ancestors(content)
            await self._access.cache_restrictions(content)
        if self._api.cloud:
            pages = [number for number, content in contents.items() if content.get("type") == "page"]
            await self._ancestors.load_parents(pages)
        await self._load_restrictions(contents)
        return contents

    async def _load_ancestors(self, numbers: Sequence[str]) -> None:
        """Data Center: the ancestors of pages, with the pages' own restrictions."""
        try:
            contents = await self._api.search_ids(numbers, f"ancestors,{RESTRICTIONS_EXPAND}")
        except (SourceGone, Unreadable):
            return
        for content in contents.values():
            self._ancestors.record_ancestors(content)
            await self._access.cache_restrictions(content)

    async def _load_restrictions(self, numbers: Iterable[str]) -> None:
        """Look up the restrictions of these contents and of all their ancestors that are known."""
        chains = [self._ancestors.chain_if_known(number) or (number,) for number in numbers]
        await self._access.load_restrictions(number for chain in chains for number in chain)


def inline_attachments(content: dict[str, Any]) -> list[dict[str, Any]] | None:
    """The attachments that came with a content; None unless they are all there."""
    attachments = as_dict(as_dict(content.get("children")).get("attachment"))
    results = as_list(attachments.get("results"))
    limit = attachments.get("limit")
    limit = limit if isinstance(limit, int) and limit > 0 else _DEFAULT_INLINE_LIMIT
    has_next = bool(as_dict(attachments.get("_links")).get("next"))
    if not isinstance(attachments.get("results"), list) or has_next or len(results) >= limit:
        return None
    return [as_dict(attachment) for attachment in results]
