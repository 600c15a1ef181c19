"""The OpenID provider: where people are sent to sign in, and what its response says about them.

    begin          discovery, then the address of the provider with state, nonce and a PKCE challenge
    exchange       the code for an ID token, over a connection of our own; the token's signature, issuer, audience, times and
                   nonce are checked, and its algorithm is one with a public key
    claims         those of the ID token, completed by the userinfo endpoint where groups are missing

Signing keys are fetched again when a token names one that is not known, at most every few seconds. Every failure is a `SignInFailed`
with the code that the sign-in page explains; the reason goes to the log, without codes and tokens.
"""

import asyncio
import base64
import hashlib
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus
from typing import Any, cast
from urllib.parse import quote, urlencode

import httpx
from joserfc import jwt
from joserfc.errors import InvalidKeyIdError, JoseError
from joserfc.jwk import KeySet
from pydantic import SecretStr

from gristmill import net
from gristmill.identity.sign_ins import NewSignIn, PendingSignIn

log = logging.getLogger(__name__)

_ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
_LEEWAY = 60  # seconds that the clocks may differ
_METADATA_LIFE = 3600.0
_RETRY_INTERVAL = 5.0  # seconds between two fetches of keys, or after a failed discovery
_TIMEOUT = timedelta(seconds=15)
_SIGN_OUT_TIMEOUT = 2.0  # seconds
_MAX_RESPONSE = 1 << 20


class SignInFailed(Exception):
    """A sign-in at the provider failed: `code` is for the person, `reason` for the log."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code, self.reason = code, reason


@dataclass(frozen=True)
class OpenIdClient:
    """What the provider knows Gristmill by."""

    issuer: str
    client_id: str
    client_secret: SecretStr | None
    scopes: str
    groups_claim: str


class OpenIdProvider:
    """One OpenID provider, with its metadata and keys cached."""

    def __init__(self, client: OpenIdClient) -> None:
        self._client = client
        self._lock = asyncio.Lock()
        self._metadata: dict[str, Any] | None = None
        self._fetched_at = self._failed_at = self._keys_at = float("-inf")
        self._keys: KeySet | None = None

    async def sign_in_address(self, new: NewSignIn, redirect_uri: str) -> str:
        """The address of the provider to send the browser to."""
        metadata = await self._discover()
        challenge = hashlib.sha256(new.pending.verifier.encode()).digest()
        query = {
            "response_type": "code",
            "client_id": self._client.client_id,
            "redirect_uri": redirect_uri,
            "scope": self._client.scopes,
            "state": new.state,
            "nonce": new.pending.nonce,
            "code_challenge": base64.urlsafe_b64encode(challenge).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
        }
        return _with_query(_endpoint(metadata, "authorization_endpoint"), query)

    async def sign_out_address(self, return_to: str) -> str | None:
        """The address of the provider that signs the person out there too, if it offers one and answers."""
        try:
            async with asyncio.timeout(_SIGN_OUT_TIMEOUT):  # the sign-in page waits for it
                metadata = await self._discover()
        except (SignInFailed, TimeoutError):
            return None
        endpoint = metadata.get("end_session_endpoint")
        if not isinstance(endpoint, str):
            return None
        query = {"client_id": self._client.client_id, "post_logout_redirect_uri": return_to}
        return _with_query(endpoint, query)

    async def exchange(self, code: str, pending: PendingSignIn, redirect_uri: str) -> dict[str, Any]:
        """The claims about the person whom the provider signed in with this code."""
        metadata = await self._discover()
        tokens = await self._request_tokens(metadata, code, pending, redirect_uri)
        id_token = tokens.get("id_token")
        if not isinstance(id_token, str):
            raise SignInFailed("open_id_failed", "the token response has no ID token")
        claims = self._check(await self._decode(metadata, id_token), pending.nonce)
        return await self._complete(metadata, tokens, claims)

    async def _request_tokens(
        self, metadata: Mapping[str, Any], code: str, pending: PendingSignIn, redirect_uri: str
    ) -> dict[str, Any]:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "client_id": self._client.client_id,
            "code_verifier": pending.verifier,
        }
        secret = self._client.client_secret
        credentials: httpx.BasicAuth | None = None
        if secret is not None:
            # RFC 6749, 2.3.1: both are form-encoded before they are joined.
            methods = metadata.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
            if "client_secret_basic" in methods:
                credentials = httpx.BasicAuth(
                    quote(self._client.client_id, safe=""), quote(secret.get_secret_value(), safe="")
                )
            else:
                form["client_secret"] = secret.get_secret_value()
        return await self._request_json(
            "POST", _endpoint(metadata, "token_endpoint"), data=form, auth=credentials
        )

    async def _decode(self, metadata: Mapping[str, Any], id_token: str) -> dict[str, Any]:
        for attempt in (1, 2):
            keys = await self._signing_keys(metadata, refresh=attempt > 1)
            try:
                return dict(jwt.decode(id_token, keys, algorithms=_ALGORITHMS).claims)
            except InvalidKeyIdError as error:
                if attempt > 1:  # the provider may have rotated its keys, so they were fetched again
                    raise SignInFailed("open_id_failed", f"the ID token's key is unknown: {error}") from None
            except (JoseError, ValueError) as error:
                raise SignInFailed("open_id_failed", f"the ID token is not valid: {error}") from None
        raise AssertionError

    def _check(self, claims: dict[str, Any], nonce: str) -> dict[str, Any]:
        client_id = self._client.client_id
        registry = jwt.JWTClaimsRegistry(
            leeway=_LEEWAY,
            iss={"essential": True, "value": self._client.issuer},
            aud={"essential": True, "value": client_id},
            exp={"essential": True},
            iat={"essential": True},
            sub={"essential": True},
            nonce={"essential": True, "value": nonce},
        )
        try:
            registry.validate(claims)
        except JoseError as error:
            raise SignInFailed("open_id_failed", f"the ID token is not for this sign-in: {error}") from None
        audience = claims["aud"]
        has_others = isinstance(audience, list) and len(cast(list[Any], audience)) > 1
        if (has_others or "azp" in claims) and claims.get("azp") != client_id:
            raise SignInFailed("open_id_failed", "the ID token was issued to another client")
        return claims

    async def _complete(
        self, metadata: Mapping[str, Any], tokens: Mapping[str, Any], claims: dict[str, Any]
    ) -> dict[str, Any]:
        """The claims, with those of the userinfo endpoint if some that we use are missing."""
        endpoint, access_token = metadata.get("userinfo_endpoint"), tokens.get("access_token")
        is_complete = self._client.groups_claim in claims and "email" in claims
        if is_complete or not isinstance(endpoint, str) or not isinstance(access_token, str):
            return claims
        headers = {"Authorization": f"Bearer {access_token}"}
        more = await self._request_json("GET", endpoint, headers=headers)
        if more.get("sub") != claims["sub"]:
            raise SignInFailed("open_id_failed", "the userinfo is about someone else")
        return {**more, **claims}

    async def _discover(self) -> dict[str, Any]:
        async with self._lock:
            now = time.monotonic()
            if self._metadata is not None and now - self._fetched_at < _METADATA_LIFE:
                return self._metadata
            if now - self._failed_at < _RETRY_INTERVAL:
                raise SignInFailed("open_id_unavailable", "discovery failed a moment ago")
            address = f"{self._client.issuer.rstrip('/')}/.well-known/openid-configuration"
            try:
                metadata = await self._request_json("GET", address)
            except SignInFailed:
                self._failed_at = now
                raise
            if metadata.get("issuer") != self._client.issuer:
                self._failed_at = now
                raise SignInFailed(
                    "open_id_unavailable", "the provider names another issuer than oidc_issuer"
                )
            self._metadata, self._fetched_at = metadata, now
            return metadata

    async def _signing_keys(self, metadata: Mapping[str, Any], *, refresh: bool) -> KeySet:
        async with self._lock:
            now = time.monotonic()
            if (
                self._keys is None
                or (refresh and now - self._keys_at > _RETRY_INTERVAL)
                or (now - self._keys_at > _METADATA_LIFE)
            ):
                response = await self._request_json("GET", _endpoint(metadata, "jwks_uri"))
                try:
                    self._keys = KeySet.import_key_set(cast(Any, _usable_keys(response)))
                except (JoseError, ValueError, KeyError, TypeError):
                    raise SignInFailed("open_id_unavailable", "the provider's keys can't be read") from None
                self._keys_at = now
            return self._keys

    async def _request_json(self, method: str, address: str, **options: Any) -> dict[str, Any]:
        try:
            async with net.client(allow_private=True, timeout=_TIMEOUT) as http:
                response = await http.request(method, address, follow_redirects=False, **options)
            content = response.json() if len(response.content) <= _MAX_RESPONSE else None
        except (httpx.HTTPError, ValueError) as error:
            raise SignInFailed("open_id_unavailable", f"{method} {address}: {type(error).__name__}") from None
        if response.status_code != HTTPStatus.OK or not isinstance(content, dict):
            kind = cast(dict[str, Any], content).get("error") if isinstance(content, dict) else None
            reason = f"{method} {address}: {response.status_code} {str(kind)[:100]}"
            raise SignInFailed("open_id_failed" if method == "POST" else "open_id_unavailable", reason)
        return cast(dict[str, Any], content)


def _usable_keys(response: Mapping[str, Any]) -> dict[str, Any]:
    """The keys that verify signatures; providers also list keys for encryption, of kinds that may be unknown here."""
    keys = cast(list[dict[str, Any]], response["keys"])
    return {"keys": [key for key in keys if key.get("use", "sig") == "sig" and key.get("kty") in _KEY_TYPES]}


_KEY_TYPES = ("RSA", "EC", "OKP")


def _endpoint(metadata: Mapping[str, Any], name: str) -> str:
    address = metadata.get(name)
    if not isinstance(address, str):
        raise SignInFailed("open_id_unavailable", f"the provider has no {name}")
    return address


def _with_query(address: str, query: Mapping[str, str]) -> str:
    return f"{address}{'&' if '?' in address else '?'}{urlencode(query)}"
