"""The transport: rate limits in every form, translated errors, and no secret in any message."""

from collections.abc import AsyncGenerator, Generator
from datetime import timedelta
from types import SimpleNamespace

import httpx
import pytest

from gristmill.connectors.listing import by_mark
from gristmill.connectors.listing.by_mark import MarkedPage
from gristmill.connectors.port import Stream
from gristmill.connectors.transport import (
    ApiResponse,
    CredentialsRejected,
    RateLimited,
    Transport,
    iter_pages,
    rate_limit_wait,
)
from gristmill.errors import GristmillError, SourceGone, Transient, Unreadable
from gristmill.net import PrivateAddress
from tests.sources.site import Site, SiteResponse, serve

DATE = "Sun, 01 Mar 2026 12:00:00 GMT"


@pytest.fixture
def site() -> Generator[Site]:
    with serve() as server:
        yield server


@pytest.fixture
async def http(site: Site) -> AsyncGenerator[Transport]:
    transport = Transport(
        site.url,
        headers={"Authorization": "Bearer s3cret"},
        allow_private=True,
        max_wait=timedelta(seconds=2),
        first_delay=0.01,
    )
    yield transport
    await transport.close()


@pytest.mark.parametrize(
    ("status", "headers", "body", "seconds"),
    [
        (429, {"Retry-After": "30"}, b"", 31),
        (429, {"Retry-After": "Sun, 01 Mar 2026 12:01:00 GMT", "Date": DATE}, b"", 61),
        (403, {"Retry-After": "30"}, b"", 31),
        (403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1772366460", "Date": DATE}, b"", 61),
        (429, {"RateLimit-Reset": "1772366460", "RateLimit-Remaining": "0", "Date": DATE}, b"", 61),
        (429, {"X-RateLimit-Reset": "2026-03-01T12:01:00Z", "Date": DATE}, b"", 61),
        (429, {"RateLimit-Reset": "45"}, b"", 46),
        (403, {}, b'{"message": "You have exceeded a secondary rate limit"}', 60),
        (403, {}, b'{"error": {"errors": [{"reason": "dailyLimitExceeded"}]}}', 60),
        (429, {}, b"", 60),
        (403, {"x-ratelimit-remaining": "12"}, b"no", None),
        (404, {"Retry-After": "30"}, b"", None),
    ],
)
def test_limits_are_known_in_every_form(
    status: int, headers: dict[str, str], body: bytes, seconds: int | None
) -> None:
    wait = rate_limit_wait(httpx.Response(status, headers=headers), body)
    assert wait == (None if seconds is None else timedelta(seconds=seconds))


@pytest.mark.parametrize("dates", [[DATE, DATE], ["yesterday"], [DATE.replace("GMT", "-0000")], []])
def test_an_odd_date_or_two_of_them_are_no_error(dates: list[str]) -> None:
    headers = httpx.Headers([("Date", date) for date in dates])
    assert ApiResponse(None, headers, httpx.URL("http://tool")).server_time.tzinfo is not None
    limit = httpx.Response(429, headers=[*headers.multi_items(), ("Retry-After", DATE)])
    assert rate_limit_wait(limit) is not None


@pytest.mark.parametrize(
    ("status", "error", "requests"),
    [
        (401, CredentialsRejected, 1),
        (403, Unreadable, 1),
        (404, SourceGone, 1),
        (410, SourceGone, 1),
        (422, Unreadable, 1),
        (500, Transient, 4),
    ],
)
async def test_errors_are_translated_without_secrets(
    http: Transport, site: Site, status: int, error: type[GristmillError], requests: int
) -> None:
    """S2-37: three more attempts where that may help."""
    site.add_page("/x", "s3cret in the body", status)
    site.fallback = lambda _: SiteResponse(status, b"s3cret")
    with pytest.raises(error) as raised:
        await http.get("/x", {"key": "s3cret"})
    assert "s3cret" not in str(raised.value)
    assert len(site.requests) == requests


@pytest.mark.parametrize("status", [500, 503, None], ids=["500", "503", "no connection"])
async def test_attempts_are_one_two_and_four_seconds_apart(
    site: Site, status: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S2-37: or up to half of that less, so that clients don't return together."""
    pauses: list[float] = []

    async def record_pause(pause: timedelta) -> None:
        pauses.append(pause.total_seconds())

    monkeypatch.setattr("gristmill.connectors.transport.clock", SimpleNamespace(pause=record_pause))
    site.fallback = lambda _: SiteResponse(status or 200)
    url = site.url if status else "http://127.0.0.1:9"
    transport = Transport(url, headers={}, allow_private=True, max_wait=timedelta(0))
    with pytest.raises(Transient):
        await transport.get("/x")
    await transport.close()
    assert [0.5 * longest <= pause <= longest for pause, longest in zip(pauses, (1, 2, 4), strict=True)] == [
        True
    ] * 3


async def test_a_response_after_an_error_is_accepted(http: Transport, site: Site) -> None:
    answers = iter(
        [SiteResponse(502), SiteResponse(429, headers={"Retry-After": "0"}), SiteResponse(200, b'{"a": 1}')]
    )
    site.fallback = lambda _: next(answers)
    assert (await http.get("/x")).data == {"a": 1}


async def test_the_transport_does_not_wait_for_a_long_limit(http: Transport, site: Site) -> None:
    site.fallback = lambda _: SiteResponse(429, headers={"Retry-After": "3600"})
    with pytest.raises(RateLimited) as raised:
        await http.get("/x")
    assert raised.value.wait >= timedelta(hours=1)
    assert len(site.requests) == 1


async def test_credentials_stay_with_the_tool(http: Transport, site: Site) -> None:
    """A link or redirect to another host is followed without them."""
    site.add_page("/there", "[]")
    site.fallback = lambda request: (
        SiteResponse(302, headers={"Location": f"{site.elsewhere}/there"})
        if request.path == "/x"
        else SiteResponse(200, b"[]")
    )
    await http.get("/x")
    await http.get(f"{site.elsewhere}/there")
    assert [request.headers.get("Authorization") for request in site.requests] == [
        "Bearer s3cret",
        None,
        None,
    ]


async def test_a_private_address_is_refused_unless_allowed(site: Site) -> None:
    transport = Transport(site.url, headers={}, allow_private=False, max_wait=timedelta(0))
    with pytest.raises(PrivateAddress):
        await transport.get("/x")
    await transport.close()


async def test_a_response_that_is_not_json_is_unreadable(http: Transport, site: Site) -> None:
    site.add_page("/x", "<html>")
    with pytest.raises(Unreadable):
        await http.get("/x")


async def test_a_download_comes_in_pieces_and_its_status_is_checked(http: Transport, site: Site) -> None:
    site.add_page("/file", b"x" * 200_000)
    assert sum([len(piece) async for piece in http.stream("/file")]) == 200_000
    with pytest.raises(SourceGone):
        _ = [piece async for piece in http.stream("/none")]


@pytest.mark.parametrize("token", ["mühle", "two\nlines", "nul\0"])
async def test_a_token_that_no_header_can_carry_is_refused_before_it_is_sent(
    http: Transport, site: Site, token: str
) -> None:
    http.set_header("Authorization", f"Bearer {token}")
    with pytest.raises(CredentialsRejected, match="Enter them again") as rejection:
        await http.get("/")
    assert token not in str(rejection.value)
    assert site.requests == []


async def test_a_limit_of_a_download_that_only_its_body_reports_is_a_limit(
    http: Transport, site: Site
) -> None:
    """Google's: its files counted as closed to the credentials."""
    body = b'{"error": {"errors": [{"reason": "userRateLimitExceeded"}]}}'
    site.fallback = lambda _: SiteResponse(403, body)
    with pytest.raises(RateLimited):
        _ = [piece async for piece in http.stream("/file")]


async def test_a_tool_that_repeats_a_page_is_not_read_for_ever(http: Transport, site: Site) -> None:
    """By number and by cursor: it says each time that there is more."""
    link = {"Link": f'<{site.url}/list?page=2>; rel="next"'}
    site.fallback = lambda _: SiteResponse(200, b'[{"id": 1}]', link)
    with pytest.raises(Unreadable, match="does not end"):
        _ = [page async for page in iter_pages(http.get, "/list", {}, 100)]
    assert len(site.requests) == 2

    async def same_page(cursor: str | None) -> MarkedPage:
        return MarkedPage([], next_cursor="again")

    with pytest.raises(Unreadable, match="again and again"):
        _ = [batch async for batch in by_mark.read(Stream("a", "b"), 1, None, same_page)]


async def test_a_response_over_the_limit_is_unreadable_and_named(http: Transport, site: Site) -> None:
    """A run goes on with its other streams after an error of this kind."""
    site.fallback = lambda _: SiteResponse(200, b"x" * 1000)
    with pytest.raises(Unreadable, match="/wiki: The response is larger than 100 bytes"):
        await http.raw("GET", "/wiki", limit=100)
