"""robots.txt behind redirects: followed to the fifth, and to no private address."""

import pytest

from gristmill import net
from gristmill.errors import Transient
from gristmill.sources.robots import Robots, fetch_robots
from tests.sources.site import Site, SiteResponse

SECRET = "User-agent: *\nDisallow: /secret\n"


def redirect(site: Site, path: str, target: str) -> None:
    site.pages[path] = SiteResponse(301, b"", {"Location": target})


async def read_robots(site: Site, *, follows: bool = False, allow_private: bool = True) -> Robots:
    async with net.client(allow_private=allow_private) as client:
        client.follow_redirects = follows
        return await fetch_robots(client, site.url)


@pytest.mark.parametrize("follows", [False, True])
@pytest.mark.parametrize(("count", "is_read"), [(1, True), (5, True), (6, False)])
async def test_five_redirects_are_followed_and_no_more(
    site: Site, count: int, *, is_read: bool, follows: bool
) -> None:
    """RFC 9309, 2.3.1.2, whatever the client does with other redirects. After more of them, a site has no rules."""
    redirect(site, "/robots.txt", f"{site.elsewhere}/1")
    for number in range(1, count):
        redirect(site, f"/{number}", f"/{number + 1}")
    site.add_page(f"/{count}", SECRET)
    robots = await read_robots(site, follows=follows)
    assert robots.allows(f"{site.url}/secret") != is_read
    assert len(site.requests) == min(count, 5) + 1


async def test_a_redirect_in_a_circle_or_to_no_web_address_leads_to_no_rules(site: Site) -> None:
    for target in ("/robots.txt", "ftp://example.org/robots.txt", "/missing"):
        redirect(site, "/robots.txt", target)
        assert (await read_robots(site)).allows(f"{site.url}/secret")


async def test_what_is_allowed_is_unknown_while_the_target_of_a_redirect_is_busy(site: Site) -> None:
    redirect(site, "/robots.txt", "/busy")
    site.add_page("/busy", SECRET, status=503)
    with pytest.raises(Transient):
        await read_robots(site)


async def test_a_redirect_to_a_private_address_is_not_followed(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host itself counts as public here, its other name as private."""
    real = net._public_address  # pyright: ignore[reportPrivateUsage]

    async def check_address(host: str, port: int) -> str:
        return host if host == "127.0.0.1" else await real(host, port)

    monkeypatch.setattr(net, "_public_address", check_address)
    redirect(site, "/robots.txt", f"{site.elsewhere}/rules")
    site.add_page("/rules", SECRET)
    assert (await read_robots(site, allow_private=False)).allows(f"{site.url}/secret")
    assert site.requested_paths() == ["/robots.txt"]
