"""bench/connectors_real: its proxy injects the faults that were planned, and its report names what went wrong."""

import socket

import httpx
import pytest

from bench.connectors_real import report
from bench.connectors_real.proxy import run_proxy
from bench.connectors_real.story import Outcome, ToolReport
from bench.connectors_real.tool import ServerAddress
from tests.sources.site import Site, SiteRequest, SiteResponse, serve


def _port(site: Site) -> int:
    return int(site.url.rpartition(":")[2])


def test_the_proxy_forwards_limits_cuts_and_refuses_as_planned() -> None:
    """Requests arrive with their method, host and body; each fault hits the requests that it was planned for."""

    def echo(request: SiteRequest) -> SiteResponse:
        return SiteResponse(207, f"{request.method} {request.headers['Host']} ".encode() + request.body)

    with serve() as site, run_proxy(ServerAddress(_port(site))) as proxy, httpx.Client() as client:
        site.fallback = echo
        answer = client.request("PROPFIND", f"{proxy.url}/a%20b?c=d", content=b"body")
        assert (answer.status_code, answer.text) == (207, f"PROPFIND 127.0.0.1:{proxy.port} body")
        assert site.requested_paths() == ["/a%20b?c=d"]

        proxy.plan("limit", after=1, retry_after=7)
        proxy.plan("cut", after=2)
        proxy.plan("error", after=3)
        assert client.get(proxy.url).status_code == 207
        limited = client.get(proxy.url)
        assert (limited.status_code, limited.headers["Retry-After"]) == (429, "7")
        with pytest.raises(httpx.RemoteProtocolError):
            client.get(proxy.url)
        assert client.get(proxy.url).status_code == 503
        assert (client.get(proxy.url).status_code, proxy.count) == (207, 6)

        proxy.refuse()
        with pytest.raises(httpx.ConnectError):
            client.get(proxy.url)
        proxy.open()
        assert client.get(proxy.url).status_code == 207


def test_the_proxy_of_bytes_cuts_and_refuses() -> None:
    with serve() as site, run_proxy(ServerAddress(_port(site), "tcp")) as proxy, httpx.Client() as client:
        site.add_page("/", "grain")
        assert client.get(proxy.url).text == "grain"
        proxy.plan("cut")
        with pytest.raises(httpx.RemoteProtocolError):
            client.get(proxy.url)
        proxy.refuse()
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", proxy.port)) != 0


def test_the_table_says_what_was_skipped_what_failed_and_why(capsys: pytest.CaptureFixture[str]) -> None:
    outcomes = [
        Outcome("first", "ok", "", 2.4),
        Outcome("readers", "skipped", "it has no permissions", 0.0),
        Outcome("outage", "failed", "the base lacks 1 documents", 9.0),
    ]
    tool = ToolReport("s3", "MinIO", outcomes, documents=20, first_requests=41, unchanged_requests=1)
    report.print_table([tool, ToolReport("gitea", "", unavailable="Go is not installed")])
    printed = capsys.readouterr().out
    assert "| s3 | MinIO | 2.05 | 1 | ok 2 s | – | failed 9 s |" in printed
    assert "s3, readers: skipped: it has no permissions" in printed
    assert "s3, outage: failed: the base lacks 1 documents" in printed
    assert "gitea: not available: Go is not installed" in printed
    assert tool.has_failed
