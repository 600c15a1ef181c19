"""Signatures of webhooks, as specified by Standard Webhooks. Pure.

    webhook-id           the same for every attempt at an event: receivers recognise repetitions by it
    webhook-timestamp    of the attempt, in seconds since 1970
    webhook-signature    v1, and the HMAC-SHA256 of `id.timestamp.body` in base64

A secret is `whsec_` and 24 to 64 bytes in base64.
"""

import base64
import hashlib
import hmac
import secrets

PREFIX = "whsec_"


def new_secret() -> str:
    """A new random secret."""
    return PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


def signing_key(secret: str) -> bytes:
    """The key inside a secret; ValueError when it is not a valid secret."""
    if not secret.startswith(PREFIX):
        raise ValueError(f"must begin with {PREFIX}")
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except ValueError:
        raise ValueError(f"must be Base64 after {PREFIX}") from None
    if not 24 <= len(key) <= 64:
        raise ValueError("must hold 24 to 64 bytes")
    return key


def headers(secret: str, message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The headers of a request that sends `body`."""
    payload = f"{message_id}.{timestamp}.".encode() + body
    digest = hmac.new(signing_key(secret), payload, hashlib.sha256).digest()
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": "v1," + base64.b64encode(digest).decode(),
    }
