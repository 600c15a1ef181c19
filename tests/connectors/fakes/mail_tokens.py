"""An authorisation server for mail: it issues access tokens, replaces refresh tokens, and tells a mail server whose token one is."""

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from urllib.parse import parse_qsl, urlsplit

from tests.sources.site import Site, SiteRequest, SiteResponse, serve

CLIENT = {"clientId": "app", "clientSecret": "cl1ent-secret"}


class TokenIssuer:
    """Issues `access-N` and `refresh-N` for one person. Each refresh token is good for one use, and access tokens are due for renewal
    as soon as they were issued."""

    def __init__(self, site: Site, email: str) -> None:
        self.site, self.email = site, email
        self.forms: list[dict[str, str]] = []  # requests for tokens
        self.logins: list[str] = []  # tokens that the mail server looked up
        self.valid_access: set[str] = set()
        self.valid_refresh: str | None = None
        self._lock = threading.Lock()
        site.fallback = self.answer

    @property
    def token_info(self) -> str:
        """The beginning of the address at which a token is looked up."""
        return f"{self.site.url}/tokeninfo?access_token="

    def sign_in(self) -> dict[str, str]:
        """The credentials of a connector for which someone has signed in."""
        self.valid_refresh = f"refresh-{len(self.forms)}"
        return {**CLIENT, "username": self.email, "refreshToken": self.valid_refresh}

    def revoke(self) -> None:
        """End the sign-in."""
        self.valid_access, self.valid_refresh = set(), None

    def answer(self, request: SiteRequest) -> SiteResponse:
        """Issue a token, or look one up."""
        url = urlsplit(request.path)
        with self._lock:
            if url.path == "/tokeninfo":
                return self._look_up(dict(parse_qsl(url.query))["access_token"])
            return self._issue(dict(parse_qsl(request.body.decode())))

    def _look_up(self, token: str) -> SiteResponse:
        self.logins.append(token)
        if token not in self.valid_access:
            return _json({"error": "invalid_token"}, 400)
        return _json({"email": self.email, "expires_in": 3600})

    def _issue(self, form: dict[str, str]) -> SiteResponse:
        self.forms.append(form)
        if form["client_secret"] != CLIENT["clientSecret"]:
            return _json({"error": "invalid_client"}, 401)
        is_granted = form["code"] == "good" if "code" in form else form["refresh_token"] == self.valid_refresh
        if not is_granted:
            return _json({"error": "invalid_grant"}, 400)
        number = len(self.forms)
        self.valid_access, self.valid_refresh = {f"access-{number}"}, f"refresh-{number}"
        token = {"access_token": f"access-{number}", "expires_in": 1e-6, "refresh_token": self.valid_refresh}
        return _json(token)


def _json(body: object, status: int = 200) -> SiteResponse:
    return SiteResponse(status, json.dumps(body).encode(), {"Content-Type": "application/json"})


@contextmanager
def serve_tokens(email: str) -> Generator[TokenIssuer]:
    """Serve an authorisation server until the test is over."""
    with serve() as site:
        yield TokenIssuer(site, email)
