"""Sessions of browsers with servers behind a proxy, which have no local user.

A profile gets a session of its own with each of these servers, in whichever order they start, so that a test that signs out ends no
other's.
"""

from collections.abc import Generator
from contextlib import contextmanager

import httpx
from playwright.sync_api import BrowserContext

from gristmill.server.api.caller import COOKIE

_servers: dict[str, str] = {}  # keys of admins, by the server's URL
_profiles: list[BrowserContext] = []


@contextmanager
def share(url: str, key: str | None) -> Generator[None]:
    """Sign all profiles in, within this context. Without a key they sign in by themselves."""
    if key is None:
        yield
        return
    _servers[url] = key
    try:
        for profile in _profiles:
            _add_session(profile, url, key)
        yield
    finally:
        _servers.pop(url, None)


@contextmanager
def sign_in(profile: BrowserContext) -> Generator[None]:
    """Sign a profile in to all servers that run within this context."""
    _profiles.append(profile)
    try:
        for url, key in _servers.items():
            _add_session(profile, url, key)
        yield
    finally:
        _profiles.remove(profile)


def _add_session(profile: BrowserContext, url: str, key: str) -> None:
    response = httpx.post(
        f"{url}/api/session", json={"key": key}, headers={"Origin": url}, verify=False, trust_env=False
    )
    assert response.status_code == 201, response.text
    token = response.cookies[COOKIE]
    profile.add_cookies(
        [
            {
                "name": COOKIE,
                "value": token,
                "url": url,
                "secure": True,
                "httpOnly": True,
                "sameSite": "Strict",
            }
        ]
    )
