"""A small OpenID provider on a real port that signs whatever claims a test wants, also wrong ones."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

import uvicorn
from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from tests.wait_until import wait_until

CLIENT_ID = "gristmill"
CLIENT_SECRET = "s3cret/+"


def new_key(kid: str) -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": kid, "use": "sig"})


@dataclass
class FakeProvider:
    """Its keys, the claims of the next ID token, and the requests for tokens that it got."""

    issuer: str = ""
    keys: list[RSAKey] = field(default_factory=lambda: [new_key("first")])
    claims: dict[str, Any] = field(default_factory=dict[str, Any])
    token_requests: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    signing_key: RSAKey | None = None
    key_fetches: int = 0

    async def metadata(self, _request: Request) -> JSONResponse:
        names = ("authorization_endpoint", "token_endpoint", "jwks_uri", "end_session_endpoint")
        return JSONResponse({"issuer": self.issuer, **{name: f"{self.issuer}/{name}" for name in names}})

    async def jwks(self, _request: Request) -> JSONResponse:
        self.key_fetches += 1
        return JSONResponse(KeySet(list(self.keys)).as_dict(private=False))

    async def token(self, request: Request) -> JSONResponse:
        form = {name: values[0] for name, values in parse_qs((await request.body()).decode()).items()}
        form["authorization"] = request.headers.get("authorization", "")
        self.token_requests.append(form)
        key = self.signing_key or self.keys[0]
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": CLIENT_ID, "iat": now, "exp": now + 300, **self.claims}
        id_token = jwt.encode({"alg": "RS256", "kid": key.kid}, claims, key)
        return JSONResponse({"access_token": "a", "token_type": "Bearer", "id_token": id_token})


@asynccontextmanager
async def fake_provider() -> AsyncGenerator[FakeProvider]:
    """A provider that runs on a free port of this process."""
    provider = FakeProvider()
    routes = [
        Route("/.well-known/openid-configuration", provider.metadata),
        Route("/jwks_uri", provider.jwks),
        Route("/token_endpoint", provider.token, methods=["POST"]),
    ]
    config = uvicorn.Config(Starlette(routes=routes), port=0, log_level="warning", lifespan="off")
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve())

    async def is_started() -> bool:
        return server.started

    await wait_until(is_started)
    port = server.servers[0].sockets[0].getsockname()[1]
    provider.issuer = f"http://127.0.0.1:{port}"
    try:
        yield provider
    finally:
        server.should_exit = True
        await task
