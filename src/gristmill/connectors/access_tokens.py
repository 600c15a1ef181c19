"""Access tokens that a tool's authorisation server issues for an hour or so: requested when needed, renewed in time.

    grant                 what proves who we are                     for
    JWT bearer            a key of a service account, which signs    Google
    client credentials    the secret of a registered application     Microsoft
    refresh token         a person's consent, given once             both

A token is held in memory, never stored: after a kill, the next run requests another. Microsoft returns a new refresh token with
each token and keeps the earlier one valid, so two workers may each use the one that is stored. The new one is stored when the
connector is closed; killed before that, the earlier one is used once more.
"""

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any
from urllib.parse import urlencode, urlsplit

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from gristmill.connectors.json_values import as_dict
from gristmill.connectors.transport import ApiResponse, CredentialsRejected, Params, Transport
from gristmill.errors import SourceGone, Unreadable

_RENEW_BEFORE = 300.0  # seconds before a token expires
_MAX_BYTES = 1 << 20
_FORM = "application/x-www-form-urlencoded"

TokenForm = Callable[[], Mapping[str, str]]


class TokenRenewal:
    """Requests tokens from an authorisation server. `form` makes the request, each time with a new signature."""

    def __init__(self, http: Transport, url: str, form: TokenForm) -> None:
        self._http, self._url, self._form = http, url, form
        self._lock, self._renew_at, self._token = asyncio.Lock(), 0.0, ""
        self.refresh_token: str | None = None  # a new one that came with a token

    async def token(self) -> str:
        """A token that is valid for some minutes at least."""
        async with self._lock:
            if time.monotonic() >= self._renew_at:
                data = await self._request()
                self._token = str(data["access_token"])
                self.refresh_token = str(data.get("refresh_token") or "") or self.refresh_token
                lifetime = float(data.get("expires_in") or 3600)
                self._renew_at = time.monotonic() + max(lifetime - _RENEW_BEFORE, lifetime / 2)
            return self._token

    async def _request(self) -> dict[str, Any]:
        host = urlsplit(self._url).netloc
        try:
            body = await self._http.raw(
                "POST",
                self._url,
                body=urlencode(self._form()).encode(),
                limit=_MAX_BYTES,
                Content_Type=_FORM,
            )
            data = as_dict(json.loads(body))
        except (Unreadable, SourceGone, ValueError):
            data = {}
        if not data.get("access_token"):
            raise CredentialsRejected(
                f"{host} issues no token for these credentials. Enter new ones, then sync again."
            )
        return data

    async def close(self) -> None:
        """Close its connections."""
        await self._http.close()


class SignedInTransport:
    """A transport whose token is renewed in time. Without a renewal, the token that it has is used as it is."""

    def __init__(self, http: Transport, renewal: TokenRenewal | None) -> None:
        self._http, self._renewal = http, renewal

    @property
    def renewed_secrets(self) -> dict[str, str]:
        """The new refresh token, if there is one."""
        token = None if self._renewal is None else self._renewal.refresh_token
        return {} if token is None else {"refresh_token": token}

    async def get(self, path: str, params: Params | None = None, **headers: str) -> ApiResponse:
        """The JSON at `path`."""
        await self._sign_in()
        return await self._http.get(path, params, **headers)

    async def post(self, path: str, body: object, **headers: str) -> ApiResponse:
        """The JSON response to a posted body, of a request that changes nothing."""
        await self._sign_in()
        return await self._http.post(path, body, None, **headers)

    async def stream(self, path: str, params: Params | None = None) -> AsyncIterator[bytes]:
        """The bytes at `path`."""
        await self._sign_in()
        async for piece in self._http.stream(path, params):
            yield piece

    async def close(self) -> None:
        """Close its connections."""
        await self._http.close()
        if self._renewal is not None:
            await self._renewal.close()

    async def _sign_in(self) -> None:
        if self._renewal is not None:
            self._http.set_header("Authorization", f"Bearer {await self._renewal.token()}")


class ServiceAccountKey:
    """The JSON key of a Google service account, which signs requests for tokens."""

    def __init__(self, key: str) -> None:
        try:
            data = as_dict(json.loads(key))
            loaded = serialization.load_pem_private_key(str(data["private_key"]).encode(), password=None)
            self.email, self.token_url = str(data["client_email"]), str(data["token_uri"])
        except (ValueError, KeyError, TypeError, UnsupportedAlgorithm):
            raise CredentialsRejected(
                "The key is not the JSON key of a service account. Enter the whole file."
            ) from None
        if not isinstance(loaded, rsa.RSAPrivateKey):
            raise CredentialsRejected("The key of the service account is not an RSA key. Enter another one.")
        self._key = loaded

    def form(self, scope: str, subject: str | None) -> dict[str, str]:
        """A request for a token, on behalf of `subject` if the domain's admin allows that."""
        now = int(time.time())
        claims = {
            "iss": self.email,
            "scope": scope,
            "aud": self.token_url,
            "iat": now - 30,
            "exp": now + 3000,
        }
        if subject is not None:
            claims["sub"] = subject
        signing_input = f"{_base64_json({'alg': 'RS256', 'typ': 'JWT'})}.{_base64_json(claims)}"
        signature = self._key.sign(signing_input.encode(), padding.PKCS1v15(), hashes.SHA256())
        assertion = f"{signing_input}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"
        return {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": assertion}


def _base64_json(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()
