"""Fetching from a real server on loopback."""

import gzip
import socket
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.errors import Permanent, SourceGone, Transient, Unreadable, WorkError
from gristmill.net import PrivateAddress
from gristmill.sources import Original, UrlSource, normalise
from gristmill.sources.url import charset
from tests.sources.site import Site, SiteRequest, SiteResponse

LIMIT = 1000


def source(url: str, limit: int = LIMIT, timeout: timedelta = timedelta(seconds=20)) -> UrlSource:
    return UrlSource(url, limit, private=True, timeout=timeout)


async def test_a_page_is_read_with_what_its_server_says_of_it(site: Site) -> None:
    url = site.add_page(
        "/docs/a%20page.html?x=1",
        "<p>Größe",
        Content_Type='text/HTML; charset="UTF-8"',
        ETag='"v1"',
        Last_Modified="Wed, 21 Oct 2015 07:28:00 GMT",
    )
    assert await source(url).read() == Original(
        "<p>Größe".encode(),
        "a page.html",
        "text/html",
        "utf-8",
        url,
        {"etag": '"v1"', "last_modified": "Wed, 21 Oct 2015 07:28:00 GMT"},
        peer="127.0.0.1",
    )


async def test_undeclared_properties_are_none(site: Site) -> None:
    original = await source(site.add_page("/", b"\x00\x01")).read()
    assert (original.name, original.media_type, original.charset) == ("127.0.0.1", None, None)
    assert original.metadata == {}


async def test_redirects_are_followed(site: Site) -> None:
    site.add_page("/old", "", status=301, Location="/new#part")
    site.add_page("/new", "here")
    original = await source(f"{site.url}/old").read()
    assert (original.data, original.final_url, original.name) == (b"here", f"{site.url}/new", "new")


async def test_a_fragment_is_not_sent(site: Site) -> None:
    site.add_page("/a", "x")
    await source(f"{site.url}/a#part").read()
    assert site.requested_paths() == ["/a"]


@pytest.mark.parametrize(
    ("disposition", "name"),
    [
        ('attachment; filename="report.pdf"', "report.pdf"),
        ("attachment; filename*=UTF-8''Gr%C3%B6%C3%9Fe.pdf", "Größe.pdf"),
        ('attachment; filename="../../etc/passwd"', "passwd"),
        ('attachment; filename="C:\\\\temp\\\\a.doc"', "a.doc"),
        ("attachment", "download"),
    ],
)
async def test_the_name_is_the_servers_without_its_folders(site: Site, disposition: str, name: str) -> None:
    url = site.add_page("/download", "x", Content_Disposition=disposition)
    assert (await source(url).read()).name == name


@pytest.mark.parametrize(
    ("status", "kind", "code"),
    [
        (404, SourceGone, "source_gone"),
        (410, SourceGone, "source_gone"),
        (401, Unreadable, "forbidden_by_source"),
        (403, Unreadable, "forbidden_by_source"),
        (400, Unreadable, "refused_by_source"),
        (451, Unreadable, "refused_by_source"),
        (304, Unreadable, "refused_by_source"),
        (429, Transient, "source_busy"),
        (503, Transient, "source_busy"),
        (408, Transient, "source_unavailable"),
        (500, Transient, "source_unavailable"),
        (502, Transient, "source_unavailable"),
    ],
)
async def test_every_status_has_its_error(site: Site, status: int, kind: type[WorkError], code: str) -> None:
    url = site.add_page("/a?token=secret", "", status=status)
    for call in (source(url).probe(), source(url).read()):
        with pytest.raises(kind) as caught:
            await call
        assert caught.value.code == code
        assert "secret" not in caught.value.message


@pytest.mark.parametrize(
    ("retry_after", "least", "greatest"),
    [
        ("120", 120, 120),
        ("999999999999", 86_400, 86_400),
        ("in an hour", 3000, 3600),
    ],
    ids=["seconds", "too many seconds", "a date"],
)
async def test_retry_after_of_a_busy_server_is_passed_on(
    site: Site, retry_after: str, least: int, greatest: int
) -> None:
    if retry_after == "in an hour":
        retry_after = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    with pytest.raises(Transient) as caught:
        await source(site.add_page("/a", "", status=429, Retry_After=retry_after)).read()
    assert caught.value.retry_after is not None
    assert timedelta(seconds=least) <= caught.value.retry_after <= timedelta(seconds=greatest)


@pytest.mark.parametrize("retry_after", ["soon", "0", "Wed, 21 Oct 2015 07:28:00 GMT"])
async def test_a_retry_after_that_is_invalid_or_names_no_wait_is_ignored(
    site: Site, retry_after: str
) -> None:
    with pytest.raises(Transient) as caught:
        await source(site.add_page("/a", "", status=503, Retry_After=retry_after)).read()
    assert caught.value.retry_after is None


async def test_a_probe_returns_the_size_without_the_body(site: Site) -> None:
    url = site.add_page("/a", "x" * 700)
    assert await source(url).probe() == 700
    assert [request.method for request in site.requests] == ["HEAD"]


@pytest.mark.parametrize("refusal", [403, 405, 501])
@pytest.mark.parametrize("ranges", [True, False])
async def test_where_head_is_refused_one_byte_is_requested(site: Site, refusal: int, ranges: bool) -> None:
    def answer(request: SiteRequest) -> SiteResponse:
        if request.method == "HEAD":
            return SiteResponse(refusal)
        assert request.headers["Range"] == "bytes=0-0"
        return (
            SiteResponse(206, b"x", {"Content-Range": "bytes 0-0/700"})
            if ranges
            else SiteResponse(200, b"x" * 700)
        )

    site.fallback = answer
    assert await source(f"{site.url}/a").probe() == 700


async def test_a_probe_of_a_forbidden_page_raises(site: Site) -> None:
    site.fallback = lambda _: SiteResponse(403)
    with pytest.raises(Unreadable) as caught:
        await source(f"{site.url}/a").probe()
    assert caught.value.code == "forbidden_by_source"


@pytest.mark.parametrize(
    "answer",
    [
        SiteResponse(405),
        SiteResponse(206, b"x", {"Content-Range": "bytes 0-0/*"}),
        SiteResponse(416, b"", {"Content-Range": "bytes */0"}),
        SiteResponse(200, b"x", {"Content-Length": "", "Connection": "close"}),
    ],
    ids=["refused", "unknown", "empty", "no length"],
)
async def test_an_unknown_size_is_zero(site: Site, answer: SiteResponse) -> None:
    site.fallback = lambda request: SiteResponse(405) if request.method == "HEAD" else answer
    if answer.status == 405:
        with pytest.raises(Unreadable):
            await source(f"{site.url}/a").probe()
    else:
        assert await source(f"{site.url}/a").probe() == 0


async def test_what_is_too_large_is_refused_before_and_while_it_is_read(site: Site) -> None:
    url = site.add_page("/a", "x" * (LIMIT + 1))
    for call in (source(url).probe(), source(url).read()):
        with pytest.raises(Permanent) as caught:
            await call
        assert caught.value.code == "document_too_large"
    assert len((await source(url, LIMIT + 1).read()).data) == LIMIT + 1


async def test_a_compressed_page_is_inflated(site: Site) -> None:
    url = site.add_page("/a", gzip.compress(b"x" * 900), Content_Encoding="gzip")
    assert (await source(url).read()).data == b"x" * 900
    assert site.requests[0].headers["Accept-Encoding"] == "gzip"


@pytest.mark.parametrize("empty", [b"", gzip.compress(b"")], ids=["no bytes", "no content"])
async def test_an_empty_compressed_page_is_empty(site: Site, empty: bytes) -> None:
    assert (await source(site.add_page("/a", empty, Content_Encoding="gzip")).read()).data == b""


async def test_a_bomb_is_not_decompressed(site: Site) -> None:
    bomb = gzip.compress(bytes(100_000_000), 1)
    with pytest.raises(Permanent) as caught:
        await source(site.add_page("/a", bomb, Content_Encoding="gzip")).read()
    assert caught.value.code == "document_too_large"
    url = site.add_page("/b", gzip.compress(bomb), Content_Encoding="gzip, gzip")
    with pytest.raises(Unreadable) as caught:
        await source(url).read()
    assert caught.value.code == "unknown_content_encoding"


@pytest.mark.parametrize("data", [b"no gzip at all", gzip.compress(b"x" * 900)[:-9]], ids=["other", "half"])
async def test_a_damaged_page_is_a_transient_error(site: Site, data: bytes) -> None:
    with pytest.raises(Transient) as caught:
        await source(site.add_page("/a", data, Content_Encoding="gzip")).read()
    assert caught.value.code == "source_unavailable"


async def test_a_page_that_breaks_off_is_a_transient_error(site: Site) -> None:
    url = site.add_page("/a", "half", Content_Length="8", Connection="close")
    with pytest.raises(Transient) as caught:
        await source(url, timeout=timedelta(seconds=2)).read()
    assert caught.value.code in ("source_unreachable", "source_timeout")


async def test_a_server_that_never_responds_times_out(site: Site) -> None:
    def hold(_: SiteRequest) -> SiteResponse:
        site.closing.wait()
        return SiteResponse()

    site.fallback = hold
    for call in (UrlSource.probe, UrlSource.read):
        with pytest.raises(Transient) as caught:
            await call(source(f"{site.url}/a", timeout=timedelta(milliseconds=50)))
        assert caught.value.code == "source_timeout"


async def test_an_unreachable_server_is_a_transient_error() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    with pytest.raises(Transient) as caught:
        await source(f"http://127.0.0.1:{port}/").read()
    assert caught.value.code == "source_unreachable"


async def test_redirects_in_a_circle_end(site: Site) -> None:
    site.add_page("/a", "", status=302, Location="/a")
    with pytest.raises(Unreadable) as caught:
        await source(f"{site.url}/a").read()
    assert caught.value.code == "too_many_redirects"


async def test_a_redirect_to_a_host_that_does_not_exist_names_that_host(site: Site) -> None:
    site.add_page("/a", "", status=302, Location="http://nowhere.invalid/login")
    with pytest.raises(Transient, match=r"no host named nowhere\.invalid|address of nowhere\.invalid"):
        await source(f"{site.url}/a").read()


async def test_a_redirect_to_a_file_is_refused(site: Site) -> None:
    site.add_page("/a", "", status=302, Location="file:///etc/passwd")
    with pytest.raises(Unreadable) as caught:
        await source(f"{site.url}/a").read()
    assert caught.value.code == "refused_by_source"


async def test_a_private_address_is_refused_for_good_unless_allowed(site: Site) -> None:
    url = site.add_page("/a", "x")
    for call in (UrlSource.probe, UrlSource.read):
        with pytest.raises(PrivateAddress):
            await call(UrlSource(url, LIMIT, private=False))
    assert site.requests == []


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("ftp://example.com/a", "invalid_url"),
        ("file:///etc/passwd", "invalid_url"),
        ("javascript:alert(1)", "invalid_url"),
        ("example.com/a", "invalid_url"),
        ("//example.com/a", "invalid_url"),
        ("http://", "invalid_url"),
        ("http:///path", "invalid_url"),
        ("http://a b/", "invalid_url"),
        ("http://a\\b/", "invalid_url"),
        ("http://example.com:0/", "invalid_url"),
        ("http://example.com:99999/", "invalid_url"),
        ("http://example.com/\x00", "invalid_url"),
        ("http://example.com/\udce9", "invalid_url"),
        ("http://example.com/" + "a" * 9000, "invalid_url"),
        ("", "invalid_url"),
        ("http://user:secret@example.com/", "url_with_credentials"),
        ("http://user@example.com/", "url_with_credentials"),
    ],
)
async def test_an_invalid_address_is_refused(url: str, code: str) -> None:
    for call in (UrlSource.probe, UrlSource.read):
        with pytest.raises(Permanent) as caught:
            await call(source(url))
        assert caught.value.code == code
        assert "secret" not in caught.value.message


@pytest.mark.parametrize(
    ("url", "normal"),
    [
        ("HTTP://Example.COM", "http://example.com/"),
        ("https://example.com:443/A?b=C#d", "https://example.com/A?b=C"),
        ("http://example.com:8080", "http://example.com:8080/"),
        ("https://example.com:80/", "https://example.com:80/"),
        ("http://example.com?a=1", "http://example.com/?a=1"),
        ("  http://example.com/ ", "http://example.com/"),
        ("http://bücher.example/ü?q=ü", "http://xn--bcher-kva.example/%C3%BC?q=%C3%BC"),
        ("http://example.com/a%2Fb", "http://example.com/a%2Fb"),
        ("http://example.com/a/../b", "http://example.com/b"),
        ("http://[::1]:80/", "http://[::1]/"),
    ],
)
def test_addresses_of_one_page_are_equal_once_normalised(url: str, normal: str) -> None:
    assert normalise(url) == normal


_PIECES = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=20)


@given(
    scheme=st.sampled_from(["http", "HTTPS"]),
    host=st.sampled_from(["a", "WWW.Example.com", "bücher.example", "127.0.0.1", "[::1]"]),
    port=st.sampled_from(["", ":80", ":443", ":8080"]),
    path=_PIECES,
    query=_PIECES,
    fragment=_PIECES,
)
def test_normalising_twice_changes_nothing(
    scheme: str, host: str, port: str, path: str, query: str, fragment: str
) -> None:
    try:
        first = normalise(f"{scheme}://{host}{port}/{path}?{query}#{fragment}")
    except Permanent:  # control characters are in no address
        return
    assert normalise(first) == first
    assert "#" not in first
    assert first.isascii()


@pytest.mark.parametrize(
    ("data", "header", "expected"),
    [
        (b"plain", None, None),
        (b"plain", "utf-8", "utf-8"),
        (b"plain", "no-such-set", None),
        (b"plain", "base64", None),
        (b"plain", "latin-1", "windows-1252"),
        (b"plain", "GB2312", "gb18030"),
        (b"\xef\xbb\xbftext", "latin-1", "utf-8-sig"),
        ("text".encode("utf-16"), None, "utf-16"),
        ("text".encode("utf-32"), None, "utf-32"),
        (b'<meta charset="shift_jis">', None, "cp932"),
        (b"<meta http-equiv=Content-Type content='text/html; charset=big5'>", None, "big5hkscs"),
        (b'<meta charset="shift_jis">', "utf-8", "utf-8"),
        (b'<meta charset="utf-16">', None, "utf-8"),
        (b"<meta " * 300 + b'charset="utf-8">', None, None),
    ],
)
def test_the_character_set_is_that_of_the_bom_then_the_header_then_the_page(
    data: bytes, header: str | None, expected: str | None
) -> None:
    assert charset(data, header) == expected
