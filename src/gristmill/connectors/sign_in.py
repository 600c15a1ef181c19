"""How people sign in at tools, and what connectors may expect of where the secrets are stored: the values that pass between them.

`oauth.py` performs a sign-in, `access_tokens.py` requests tokens with its result, and `secret_renewal.py` stores what tools replace.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class OAuthFlow:
    """How a person signs in at the tool, so that the connector reads on their behalf: the code flow with PKCE.

    The addresses follow from the configuration. The credentials have `client_id`, `client_secret` and `refresh_token`.
    """

    authorize_url: Callable[[Any], str]
    token_url: Callable[[Any], str]
    scope: str
    parameters: Mapping[str, str] = field(
        default_factory=dict[str, str]
    )  # what else the tool wants at the start


# How people sign in: one way for all connectors of a kind, or what their configuration asks for.
OAuthFlows = OAuthFlow | Callable[[Any], OAuthFlow | None]

GOOGLE_SIGN_IN = "https://accounts.google.com/o/oauth2/v2/auth"
GOOGLE_TOKENS = "https://oauth2.googleapis.com/token"
MICROSOFT_AUTHORITY = "https://login.microsoftonline.com"


def google_flow(scope: str) -> OAuthFlow:
    """A sign-in at Google. `consent` makes it return a refresh token also to those who signed in before."""
    parameters = {"access_type": "offline", "prompt": "consent"}
    return OAuthFlow(lambda _: GOOGLE_SIGN_IN, lambda _: GOOGLE_TOKENS, scope, parameters)


def microsoft_flow(scope: str) -> OAuthFlow:
    """A sign-in at Microsoft; the configuration has `authority` and `tenant`."""

    def address(endpoint: str) -> Callable[[Any], str]:
        return lambda config: f"{config.authority}/{config.tenant}/oauth2/v2.0/{endpoint}"

    return OAuthFlow(address("authorize"), address("token"), f"{scope} offline_access")


class SecretRenewal(ABC):
    """A renewal under way: `secret` is to be used now, and by no one else meanwhile."""

    def __init__(self, secret: str) -> None:
        self.secret = secret

    @abstractmethod
    async def store(self, secret: str) -> None:
        """Keep the secret that replaces the one that was used. When this returns, it is durable."""


class SecretKeeper(ABC):
    """Where the secrets of a connector are stored, for tools that replace them when they are used (secret_renewal.py)."""

    @abstractmethod
    def renew(self, field: str) -> AbstractAsyncContextManager[SecretRenewal]:
        """Hold the lease on a secret of the credentials, across all processes, until the end of the block. Spend half a minute
        there at most."""
