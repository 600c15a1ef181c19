"""Access tokens that a tool's authorisation server issues for an hour or so: requested when needed, renewed in time.

    grant                 what proves who we are                     for
    JWT bearer            a key of a service account, which signs    Google
    client credentials    the secret of a registered application     Microsoft
    refresh token         a person's consent, given once             both

A token is held in memory, never stored: after a kill, the next run requests another. A response may have a new refresh token in
place of the one that was used: it is stored before the access token is used, and no other worker uses the old one meanwhile
(secret_renewal.py). From the request to that commit nothing can cancel a renewal, because its response can't be had again.
"""

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, TypeVar
from urllib.parse import urlencode, urlsplit

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from gristmill import faults
from gristmill.connectors.json_values import as_dict
from gristmill.connectors.sign_in import SecretKeeper, SecretRenewal
from gristmill.connectors.transport import ApiResponse, CredentialsRejected, Params, Transport
from gristmill.errors import SourceGone, Transient, Unreadable

_RENEW_BEFORE = 300.0  # seconds before a token expires
_MAX_BYTES = 1 << 20
_FORM = "application/x-www-form-urlencoded"

TokenForm = Callable[[], Mapping[str, str]]
_REQUEST_LIMIT = 20.0  # seconds; a renewal may take a minute
_REFRESH_TOKEN = "refresh_token"  # noqa: S105
ResultT = TypeVar("ResultT")


class SignInNeeded(CredentialsRejected):
    """No one has signed in at the tool, or what they consented to has ended."""

    code = "connector_sign_in_needed"

    @classmethod
    def at(cls, tool: str) -> "SignInNeeded":
        """No one has signed in yet."""
        return cls(
            f"No one has signed in at {tool} yet. Use Sign in at the tool, in the menu of the connector, or `gristmill connector sign-in`."
        )


class TokenRenewal:
    """Requests tokens from an authorisation server. `form` makes the request, each time with a new signature."""

    def __init__(self, http: Transport, url: str, form: TokenForm) -> None:
        self._http, self._url, self._form = http, url, form
        self._lock, self._renew_at, self._token = asyncio.Lock(), 0.0, ""

    async def token(self) -> str:
        """A token that is valid for some minutes at least."""
        async with self._lock:
            if time.monotonic() >= self._renew_at:
                data = await self.renew()
                self._token = str(data["access_token"])
                lifetime = float(data.get("expires_in") or 3600)
                self._renew_at = time.monotonic() + max(lifetime - _RENEW_BEFORE, lifetime / 2)
            return self._token

    async def renew(self) -> dict[str, Any]:
        """The response of the server, with a new token."""
        return await self.request(self._form())

    async def request(self, form: Mapping[str, str]) -> dict[str, Any]:
        """The response to a request for a token; CredentialsRejected if there is none in it."""
        host = urlsplit(self._url).netloc
        try:
            async with asyncio.timeout(_REQUEST_LIMIT):
                body = await self._http.raw(
                    "POST", self._url, body=urlencode(form).encode(), limit=_MAX_BYTES, Content_Type=_FORM
                )
            data = as_dict(json.loads(body))
        except TimeoutError:
            raise Transient(f"{host} did not respond in time.", code="connector_unavailable") from None
        except (Unreadable, SourceGone, ValueError):
            data = {}
        if not data.get("access_token"):
            raise self._refusal(host)
        return data

    async def close(self) -> None:
        """Close its connections."""
        await self._http.close()

    def _refusal(self, host: str) -> CredentialsRejected:
        return CredentialsRejected(
            f"{host} issues no token for these credentials. Enter new ones, then sync again."
        )


class RefreshTokenRenewal(TokenRenewal):
    """Requests tokens by the refresh token that is stored, and stores the one that replaces it. Without `secrets`, which is while
    credentials are checked before they are stored, `refresh_token` is used, and what replaces it is lost."""

    def __init__(
        self, http: Transport, url: str, form: TokenForm, refresh_token: str, secrets: SecretKeeper | None
    ) -> None:
        super().__init__(http, url, form)
        self._secrets = secrets or _UnstoredSecrets(refresh_token)

    async def renew(self) -> dict[str, Any]:
        """The response of the server. A refusal counts when the stored token is still the one that was refused."""
        refused: str | None = None
        while True:
            outcome = await _run_to_end(self._renew_once(refused))
            if not isinstance(outcome, str):
                return outcome
            refused = outcome

    async def _renew_once(self, refused: str | None) -> dict[str, Any] | str:
        """The response, or the refresh token that was refused for the first time."""
        async with self._secrets.renew(_REFRESH_TOKEN) as renewal:
            try:
                data = await self.request({**self._form(), _REFRESH_TOKEN: renewal.secret})
            except CredentialsRejected:
                if renewal.secret == refused:
                    raise
                await faults.point("renewal.refused")
                return renewal.secret
            new_token = str(data.get(_REFRESH_TOKEN) or "")
            if new_token and new_token != renewal.secret:
                await renewal.store(new_token)
            return data

    def _refusal(self, host: str) -> CredentialsRejected:
        return SignInNeeded(
            f"{host} no longer accepts the sign-in: it has expired, or was revoked. Sign in again at the tool, then sync."
        )


class _UnstoredRenewal(SecretRenewal):
    async def store(self, secret: str) -> None:
        self.secret = secret


class _UnstoredSecrets(SecretKeeper):
    """A refresh token that is not stored yet."""

    def __init__(self, secret: str) -> None:
        self._renewal = _UnstoredRenewal(secret)

    def renew(self, field: str) -> AbstractAsyncContextManager[SecretRenewal]:
        """The token that came last."""
        del field
        return nullcontext[SecretRenewal](self._renewal)


async def _run_to_end(step: Coroutine[Any, Any, ResultT]) -> ResultT:
    """The result of a step, which ends even if the caller is cancelled meanwhile: the caller then waits for that."""
    task = asyncio.ensure_future(step)
    is_cancelled = False
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            is_cancelled = True
    if is_cancelled:
        if not task.cancelled():
            task.exception()  # retrieved so that asyncio does not log it: the caller is gone
        raise asyncio.CancelledError
    return task.result()


class SignedInTransport:
    """A transport whose token is renewed in time. Without a renewal, the token that it has is used as it is."""

    def __init__(self, http: Transport, renewal: TokenRenewal | None) -> None:
        self._http, self._renewal = http, renewal

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
