"""What a response means for an address of a crawl. Pure.

the response                                  the address is
unchanged                                     what it was, with the links it had
a redirect within the site                    an alias; the target is met at the same depth
a redirect elsewhere                          left out, other_site, excluded …
no document                                   left out, not_a_document
a page with noindex                           left out, noindex; its links count
a page whose canonical page is another one    an alias; that one is met at the same depth
any other                                     a page

404, 410                                      gone
429, 503, while other pages respond           still to be fetched, however often: the site limits requests
any other error, of a page that is filed      a page, with the links it had: an outage removes nothing
it can't be rendered, though it has to be     left out, not_rendered
any other error                               left out, unreachable
"""

from collections.abc import Collection
from dataclasses import dataclass, replace

from gristmill.catalog.crawls import CrawledPage, WaitingPage
from gristmill.errors import SourceGone, Transient, WorkError
from gristmill.sources.site_fetch import FetchedAddress
from gristmill.sources.site_rules import SiteRules

MAX_ATTEMPTS = 3
RENDER_ERRORS = frozenset({"render_unavailable", "render_failed", "render_timeout", "render_too_large"})
# What a conditional request may confirm. Everything else is decided without a response, or may have changed with the rules.
_LASTING_REASONS = ("noindex", "not_a_document")


@dataclass(frozen=True)
class PageDecision:
    """What an address is, and the addresses that it leads to, with their depths."""

    page: CrawledPage
    next_addresses: tuple[tuple[str, int], ...] = ()


def can_be_unchanged(page: WaitingPage) -> bool:
    """Whether it is enough to hear that nothing has changed at an address."""
    if page.keeps_address:
        return False
    is_lasting = page.state == "alias" or (page.state == "left_out" and page.reason in _LASTING_REASONS)
    return is_lasting or (page.state == "page" and page.item_id is not None)


def decide(
    page: WaitingPage, fetched: FetchedAddress, rules: SiteRules, sites: Collection[str]
) -> PageDecision:
    """What a response means. The digest of new bytes is not known here."""
    match fetched.kind:
        case "unchanged":
            return _with_links(page, _as_before(page))
        case "redirect":
            target = fetched.location
            reason = "other_site" if target is None else rules.reason_to_leave_out(target, page.depth, sites)
            if reason is not None and not (page.depth == 0 and reason == "excluded"):
                return PageDecision(CrawledPage(page.url, "left_out", reason))
            crawled = CrawledPage(page.url, "alias", "redirect", target)
            return PageDecision(crawled, ((target or "", page.depth),))
        case "other":
            return PageDecision(CrawledPage(page.url, "left_out", "not_a_document"))
        case "document":
            return _decide_document(page, fetched, rules, sites)


def _decide_document(
    page: WaitingPage, fetched: FetchedAddress, rules: SiteRules, sites: Collection[str]
) -> PageDecision:
    directives = fetched.directives
    validators = {} if fetched.original is None else dict(fetched.original.metadata)
    crawled = CrawledPage(page.url, "page", links=directives.links, validators=validators)
    canonical = directives.canonical
    if directives.must_not_index:
        crawled = replace(crawled, state="left_out", reason="noindex")
    elif not rules.is_included(page.url):  # the start page, which only leads to others
        crawled = replace(crawled, state="left_out", reason="excluded")
    elif (
        canonical not in (None, page.url)
        and not page.keeps_address
        and rules.reason_to_leave_out(canonical or "", page.depth, sites) is None
    ):
        crawled = replace(crawled, state="alias", reason="canonical", target=canonical)
    return _with_links(page, crawled)


def is_busy(result: FetchedAddress | WorkError) -> bool:
    """Whether a server asks for fewer requests."""
    return isinstance(result, Transient) and result.code == "source_busy"


def decide_error(page: WaitingPage, error: WorkError, *, is_limited: bool = False) -> PageDecision:
    """What an error means. `is_limited` if other pages of the site respond meanwhile."""
    if isinstance(error, SourceGone):
        return PageDecision(CrawledPage(page.url, "gone"))
    before = _as_before(page)
    must_wait = is_limited and is_busy(error)
    if must_wait or (isinstance(error, Transient) and page.attempts + 1 < MAX_ATTEMPTS):
        return PageDecision(replace(before, is_done=False))
    if page.item_id is None:
        reason = "not_rendered" if error.code in RENDER_ERRORS else "unreachable"
        before = replace(before, state="left_out", reason=reason, validators={})
    return _with_links(page, before)


def _as_before(page: WaitingPage) -> CrawledPage:
    return CrawledPage(
        page.url, page.state, page.reason, page.target, page.links, page.validators, page.digest
    )


def _with_links(page: WaitingPage, crawled: CrawledPage) -> PageDecision:
    targets = ((crawled.target, page.depth),) if crawled.state == "alias" and crawled.target else ()
    return PageDecision(crawled, (*targets, *((link, page.depth + 1) for link in crawled.links)))
