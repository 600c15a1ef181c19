"""Crawls of web sites: which addresses were met, what was found there, and when the next request to a host may be sent. All in
the caller's transaction.

    address met    ── waits ──▶ fetched:  page       filed, or found again
                                          alias      redirects, or names another page as its canonical one
                                          left_out   with a reason
                                          gone       404 or 410
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal

from psycopg.types.json import Jsonb

from gristmill.catalog.base import BaseId
from gristmill.catalog.item import ItemId
from gristmill.catalog.store import queries
from gristmill.db import Tx

CrawlState = Literal["new", "page", "alias", "left_out", "gone"]


@dataclass(frozen=True)
class SiteCrawlRow:
    """A crawl of a site, as far as it is. `version` is that of the item it lists, 0 for a check by schedule."""

    site_id: ItemId
    number: int
    version: int
    is_running: bool
    is_seeded: bool
    is_complete: bool
    sites: list[str]
    requests: int
    pages: int
    addresses: int
    left_out: dict[str, int]


@dataclass(frozen=True)
class MetAddress:
    """An address that a crawl met, and why it is not fetched, if it is not."""

    url: str
    depth: int
    reason: str | None = None


@dataclass(frozen=True)
class WaitingPage:
    """An address that is to be fetched: what the last crawl found there, and the item and the bytes that the base has of it."""

    url: str
    depth: int
    state: CrawlState
    reason: str | None
    target: str | None
    keeps_address: bool
    attempts: int
    links: list[str]
    validators: dict[str, str]
    digest: bytes | None
    item_id: ItemId | None
    original: bytes | None


@dataclass(frozen=True)
class CrawledPage:
    """What a crawl found at an address. One that is not done is fetched again, later in the same crawl."""

    url: str
    state: CrawlState
    reason: str | None = None
    target: str | None = None
    links: Sequence[str] = ()
    validators: Mapping[str, str] = field(default_factory=dict[str, str])
    digest: bytes | None = None
    is_done: bool = True


@dataclass(frozen=True)
class PageBytes:
    """Bytes that a crawl fetched for an item, with what the server declared about them."""

    item_id: ItemId
    blob: bytes
    size: int
    declared: Mapping[str, Any]


@dataclass(frozen=True)
class VariantCount:
    """How many addresses of one path differ in their query."""

    path: str
    count: int


@dataclass(frozen=True)
class LeftOutCount:
    """How many addresses a crawl left out for one reason."""

    reason: str
    count: int


async def find_crawl(tx: Tx, site_id: ItemId) -> SiteCrawlRow | None:
    """The last crawl of a site."""
    return await queries.maybe(tx, SiteCrawlRow, "find_crawl", site=site_id)


async def start_crawl(tx: Tx, site_id: ItemId, version: int, sites: Sequence[str]) -> SiteCrawlRow:
    """Start the next crawl of a site."""
    return await queries.one(
        tx, SiteCrawlRow, "start_crawl", site=site_id, version=version, sites=list(sites)
    )


async def advance_crawl(
    tx: Tx,
    site_id: ItemId,
    *,
    requests: int = 0,
    pages: int = 0,
    addresses: int = 0,
    is_seeded: bool = False,
    is_incomplete: bool = False,
    sites: Sequence[str] = (),
) -> None:
    """Add to the counts of a crawl, and to the hosts of its site. `is_incomplete`: it can't see all pages."""
    await queries.run(
        tx,
        "advance_crawl",
        site=site_id,
        requests=requests,
        pages=pages,
        addresses=addresses,
        is_seeded=is_seeded,
        is_incomplete=is_incomplete,
        sites=list(sites),
    )


async def finish_crawl(
    tx: Tx, crawl: SiteCrawlRow, left_out: Mapping[str, int], *, is_complete: bool
) -> None:
    """End a crawl. After a complete one, addresses that it did not meet are forgotten."""
    await queries.run(
        tx,
        "finish_crawl",
        site=crawl.site_id,
        number=crawl.number,
        left_out=Jsonb(dict(left_out)),
        is_complete=is_complete,
    )


async def meet_addresses(tx: Tx, crawl: SiteCrawlRow, addresses: Sequence[MetAddress]) -> int:
    """Note addresses that a crawl met; how many of them it had not met before."""
    if not addresses:
        return 0
    urls = await queries.values(
        tx,
        "meet_addresses",
        site=crawl.site_id,
        number=crawl.number,
        urls=[address.url for address in addresses],
        depths=[address.depth for address in addresses],
        reasons=[address.reason for address in addresses],
    )
    return len(urls)


async def count_variants(tx: Tx, crawl: SiteCrawlRow, paths: Sequence[str]) -> dict[str, int]:
    """How many addresses of these paths differ in their query."""
    rows = await queries.many(
        tx, VariantCount, "count_variants", site=crawl.site_id, number=crawl.number, paths=list(paths)
    )
    return {row.path: row.count for row in rows}


async def find_waiting_pages(tx: Tx, base_id: BaseId, crawl: SiteCrawlRow, limit: int) -> list[WaitingPage]:
    """Addresses that a crawl has not fetched yet."""
    return await queries.many(
        tx,
        WaitingPage,
        "find_waiting_pages",
        base=base_id,
        site=crawl.site_id,
        number=crawl.number,
        limit=limit,
    )


async def record_pages(tx: Tx, crawl: SiteCrawlRow, pages: Sequence[CrawledPage]) -> None:
    """Record what was found at addresses."""
    rows = [
        {
            "url": page.url,
            "is_done": page.is_done,
            "state": page.state,
            "reason": page.reason,
            "target": page.target,
            "links": list(page.links),
            "validators": dict(page.validators),
            "digest": None if page.digest is None else page.digest.hex(),
        }
        for page in pages
    ]
    await queries.run(tx, "record_pages", site=crawl.site_id, number=crawl.number, pages=json.dumps(rows))


async def requeue_aliases(tx: Tx, crawl: SiteCrawlRow) -> int:
    """Fetch pages once more whose canonical page can't be had; how many."""
    return len(await queries.values(tx, "requeue_aliases", site=crawl.site_id, number=crawl.number))


async def count_left_out(tx: Tx, crawl: SiteCrawlRow) -> dict[str, int]:
    """What a crawl left out, by reason."""
    rows = await queries.many(tx, LeftOutCount, "count_left_out", site=crawl.site_id, number=crawl.number)
    return {row.reason: row.count for row in rows}


async def find_gone_pages(tx: Tx, crawl: SiteCrawlRow, *, is_complete: bool) -> list[ItemId]:
    """Pages in the base that the site no longer has."""
    return await queries.values(
        tx, "find_gone_pages", site=crawl.site_id, number=crawl.number, is_complete=is_complete
    )


async def count_filed_pages(tx: Tx, site_id: ItemId) -> int:
    """How many pages of a site are in the base."""
    return (await queries.values(tx, "count_filed_pages", site=site_id))[0]


async def hand_over_pages(tx: Tx, pages: Sequence[PageBytes]) -> None:
    """Let the versions that are wanted now be read from bytes that a crawl fetched."""
    if pages:
        await queries.run(
            tx,
            "hand_over_pages",
            ids=[page.item_id for page in pages],
            blobs=[page.blob for page in pages],
            sizes=[page.size for page in pages],
            fetched=[Jsonb(dict(page.declared)) for page in pages],
        )


# ── hosts ────────────────────────────────────────────────────────────────────────────────────────────────


async def set_host_delay(tx: Tx, host: str, delay: timedelta) -> None:
    """Set how long to wait between two requests to a host."""
    await queries.run(tx, "set_host_delay", host=host, delay=delay)


async def take_turn(tx: Tx, host: str, patience: timedelta) -> timedelta | None:
    """Reserve the next request to a host: how long to wait for it. Below zero, if it is further away than `patience`: then
    nothing is reserved. None if the host has no delay."""
    waits = await queries.values(tx, "take_turn", host=host, patience=patience)
    return timedelta(seconds=waits[0]) if waits else None
