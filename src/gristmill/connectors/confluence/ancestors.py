"""Finds the ancestors of pages: those whose restrictions apply to a page besides its own.

Cloud          lists return each page's parent. The chain of parents is walked here; only where a parent was not listed (a
               folder, or a page that the credentials can't see) is Confluence asked for all ancestors of the page
Data Center    every content comes with its ancestors
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gristmill.connectors.confluence.api import ConfluenceApi
from gristmill.connectors.json_values import as_dict, as_list
from gristmill.errors import SourceGone, Unreadable

_MAX_DEPTH = 100


class AncestorResolver:
    """Knows the chains of pages that this run has met."""

    def __init__(self, api: ConfluenceApi) -> None:
        self._api = api
        self._parents: dict[str, tuple[str, str] | None] = {}  # by page id: type and id of its parent
        self._chains: dict[str, tuple[str, ...]] = {}  # by content id: its ancestors from the top, and itself

    def record_parents(self, pages: Iterable[Mapping[str, Any]]) -> None:
        """Take the parents of pages from a list of Cloud."""
        for page in pages:
            if "parentId" in page:
                parent = page["parentId"]
                link = None if parent is None else (str(page.get("parentType") or "page"), str(parent))
                number = str(page.get("id"))
                if self._parents.get(number, link) != link:
                    self._chains.clear()  # it was moved meanwhile
                self._parents[number] = link

    def record_ancestors(self, content: Mapping[str, Any]) -> None:
        """Take the ancestors of a content that came with them."""
        if isinstance(content.get("ancestors"), list):
            ancestors = [str(as_dict(ancestor).get("id")) for ancestor in as_list(content["ancestors"])]
            self._record_chain((*ancestors, str(content.get("id"))))

    def chain_if_known(self, number: str) -> tuple[str, ...] | None:
        """The ancestors of a page and the page itself, if that is known without a request."""
        below: list[str] = []
        current = number
        while current not in self._chains:
            below.append(current)
            if current not in self._parents or len(below) > _MAX_DEPTH:
                return None
            parent = self._parents[current]
            if parent is None:
                return self._record_chain(tuple(reversed(below)))
            current = parent[1]
        return self._record_chain((*self._chains[current], *reversed(below)))

    async def chain(self, kind: str, number: str) -> tuple[str, ...]:
        """The ancestors of a content and the content itself, from the top."""
        if kind != "page":
            return (number,)
        known = self.chain_if_known(number)
        if known is not None:
            return known
        if self._api.cloud:
            return self._record_chain((*await self._api.ancestors(number), number))
        self.record_ancestors(await self._api.by_id(number, "ancestors"))
        if number not in self._chains:  # it may be below a restricted page
            raise Unreadable(
                f"Confluence did not return the ancestors of page {number}.", code="connector_refused"
            )
        return self._chains[number]

    async def load_parents(self, numbers: Sequence[str]) -> None:
        """Cloud: learn the parents of many pages, and those of their parents, with few requests."""
        requested: set[str] = set()
        for _ in range(_MAX_DEPTH):
            missing = {self._find_missing(number) for number in numbers} - requested
            unlisted = sorted(number for number in missing if number is not None)
            if not unlisted:
                return
            requested.update(unlisted)
            self.record_parents(await self._list_pages(unlisted))

    def _find_missing(self, number: str) -> str | None:
        """The first page above `number` whose parent is not known yet."""
        current = number
        for _ in range(_MAX_DEPTH):
            if current in self._chains:
                return None
            if current not in self._parents:
                return current
            parent = self._parents[current]
            if parent is None or (parent[0] != "page" and parent[1] not in self._chains):
                return None
            current = parent[1]
        return None

    async def _list_pages(self, numbers: Sequence[str]) -> list[dict[str, Any]]:
        try:
            return await self._api.pages_by_id(numbers)
        except (SourceGone, Unreadable):
            return []  # each page is asked for its own ancestors

    def _record_chain(self, chain: tuple[str, ...]) -> tuple[str, ...]:
        for end in range(1, len(chain)):
            self._chains.setdefault(chain[end - 1], chain[:end])
        self._chains[chain[-1]] = chain
        return chain
