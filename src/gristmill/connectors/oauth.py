"""Sign-in at a tool: a person consents that a connector reads on their behalf (OAuth's code flow with PKCE).

    begin_sign_in    the address of the tool's page. What has to be remembered until the person comes back (the connector, the
                     verifier of PKCE) is sealed in `state`: nothing is stored, and no one can make a state without our key
    finish_sign_in   the code is exchanged for a refresh token, which is stored with the connector's credentials, sealed

A state is valid for ten minutes, for one connector. It works once: the tool accepts a code once. Killed between the exchange and the
commit, the token is lost and the person signs in again; what was stored before stays. Access tokens are renewed by
`access_tokens.py`.
"""

import base64
import hashlib
import json
import secrets
import time
from typing import Any
from urllib.parse import urlencode, urlsplit

from gristmill import faults, secret_references
from gristmill.connectors import admin
from gristmill.connectors.json_values import as_dict
from gristmill.connectors.model import ConnectorChanges, ConnectorId, ConnectorRow
from gristmill.connectors.port import ConnectorForm
from gristmill.connectors.registry import ConnectorRegistry, credentials_purpose
from gristmill.connectors.sign_in import OAuthFlow
from gristmill.db import Database
from gristmill.errors import Conflict, Invalid, Permanent, WorkError
from gristmill.vault import Vault

_PURPOSE = "oauth-state"
_LIFETIME = 600.0  # seconds
_MAX_BYTES = 1 << 20


async def begin_sign_in(
    vault: Vault, registry: ConnectorRegistry, row: ConnectorRow, redirect_uri: str
) -> str:
    """The address of the tool's page, at which a person consents; it sends them to `redirect_uri`."""
    config, flow = _flow_of(registry, row)
    credentials = _credentials_of(vault, row)
    if not credentials.get("client_id") or not credentials.get("client_secret"):
        raise Conflict(
            "The connector has no OAuth client. Enter clientId and clientSecret, then sign in.",
            code="oauth_client_missing",
        )
    verifier = secrets.token_urlsafe(48)
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    state = json.dumps(
        {
            "connector": str(row.id),
            "verifier": verifier,
            "redirect": redirect_uri,
            "expires": time.time() + _LIFETIME,
        }
    )
    query = {
        "response_type": "code",
        "client_id": await secret_references.resolve(str(credentials["client_id"])),
        "redirect_uri": redirect_uri,
        "scope": flow.scope,
        "state": base64.urlsafe_b64encode(vault.seal(state, _PURPOSE)).decode(),
        "code_challenge": challenge,
        "code_challenge_method": "S256",
        **flow.parameters,
    }
    if "@" in str(credentials.get("username")):
        query["login_hint"] = credentials["username"]
    return f"{flow.authorize_url(config)}?{urlencode(query)}"


async def finish_sign_in(
    db: Database, vault: Vault, registry: ConnectorRegistry, state: str, code: str
) -> ConnectorRow:
    """Exchange a code for a refresh token, and store it with the credentials of the connector that `state` names."""
    pending = _open_state(vault, state)
    async with db.connection() as tx:
        row = await admin.require_connector(tx, ConnectorId(pending["connector"]))
    config, flow = _flow_of(registry, row)
    credentials = _credentials_of(vault, row)
    token = await _exchange(registry, flow.token_url(config), credentials, pending, code)
    await faults.point("oauth.exchanged")
    changes = ConnectorChanges(credentials={**credentials, "refresh_token": token})
    return await admin.change(db, vault, registry, row.id, changes)


def _flow_of(registry: ConnectorRegistry, row: ConnectorRow) -> tuple[ConnectorForm, OAuthFlow]:
    """The configuration of a connector, and how people sign in at its tool."""
    kind = registry.kind(row.type)
    config = kind.config.model_validate(row.config)
    flow = kind.oauth(config) if callable(kind.oauth) else kind.oauth
    if flow is None:
        raise Conflict(
            f"{kind.title or kind.name} has no sign-in with these settings. Enter its credentials instead.",
            code="oauth_not_supported",
        )
    return config, flow


def _credentials_of(vault: Vault, row: ConnectorRow) -> dict[str, Any]:
    return as_dict(json.loads(vault.open(row.credentials, credentials_purpose(row.id))))


def _open_state(vault: Vault, state: str) -> dict[str, Any]:
    message = "The sign-in was begun more than ten minutes ago, or elsewhere. Begin it again."
    try:
        pending = as_dict(json.loads(vault.open(base64.urlsafe_b64decode(state.encode()), _PURPOSE)))
    except (ValueError, WorkError):
        raise Invalid(message, code="oauth_state_invalid") from None
    if float(pending["expires"]) < time.time():
        raise Invalid(message, code="oauth_state_invalid")
    return pending


async def _exchange(
    registry: ConnectorRegistry, url: str, credentials: dict[str, Any], pending: dict[str, Any], code: str
) -> str:
    """The refresh token; no transaction is open while the tool answers."""
    resolved = as_dict(json.loads(await secret_references.resolve_json(json.dumps(credentials))))
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": pending["redirect"],
        "client_id": resolved["client_id"],
        "client_secret": resolved["client_secret"],
        "code_verifier": pending["verifier"],
    }
    http = registry.limits.transport(url, {})
    try:
        body = await http.raw(
            "POST",
            url,
            body=urlencode(form).encode(),
            limit=_MAX_BYTES,
            Content_Type="application/x-www-form-urlencoded",
        )
        token = as_dict(json.loads(body)).get("refresh_token")
    except (Permanent, ValueError):
        token = None
    finally:
        await http.close()
    if not token:
        raise Conflict(
            f"{urlsplit(url).netloc} issued no refresh token. Check the client and its redirect address, then sign in again.",
            code="oauth_failed",
        )
    return str(token)
