"""Browser sessions of users, and sign-ins that are at the OpenID provider.

A session's cookie has 32 random bytes; the database has their hash. A session ends at `session_life` after signing in, or once it was
idle for `session_idle`, whichever is first; also with its user, and when the user is deactivated.
"""

import hashlib
import secrets
from dataclasses import dataclass
from datetime import timedelta

from gristmill.db import Tx
from gristmill.errors import NotAuthenticated
from gristmill.identity.key import new_secret, secret_hash
from gristmill.identity.store import queries
from gristmill.identity.users import ActiveUser, UserId

PENDING_LIFE = timedelta(minutes=10)


async def open_user_session(tx: Tx, user_id: UserId, life: timedelta) -> str:
    """Open a browser session of a user; the token for its cookie. Raises `NotAuthenticated` if they were deactivated just now."""
    token = new_secret()
    await queries.run(tx, "sweep_sessions")
    if not await queries.values(tx, "record_sign_in", id=user_id):
        raise NotAuthenticated("Your account is not active. Ask an admin.", code="user_inactive")
    await queries.run(tx, "open_user_session", hash=secret_hash(token), user=user_id, life=life)
    return token


async def find_user_by_session(tx: Tx, token: str, idle: timedelta) -> ActiveUser | None:
    """The user of a session, unless it has ended or they are not active; records that it was used."""
    return await queries.maybe(tx, ActiveUser, "find_user_by_session", hash=secret_hash(token), idle=idle)


@dataclass(frozen=True)
class PendingSignIn:
    """What the response of the OpenID provider is checked against."""

    nonce: str
    verifier: str
    next_path: str


@dataclass(frozen=True)
class NewSignIn:
    """A sign-in that goes to the OpenID provider: `state` in its address, `browser` in a cookie."""

    state: str
    browser: str
    pending: PendingSignIn


async def begin_sign_in(tx: Tx, next_path: str) -> NewSignIn:
    """Record a sign-in that goes to the OpenID provider."""
    new = NewSignIn(
        secrets.token_urlsafe(32),
        secrets.token_urlsafe(32),
        PendingSignIn(secrets.token_urlsafe(32), secrets.token_urlsafe(48), next_path),
    )
    await queries.run(tx, "sweep_pending_sign_ins")
    await queries.run(
        tx,
        "begin_sign_in",
        state=_digest(new.state),
        browser=_digest(new.browser),
        life=PENDING_LIFE,
        **vars(new.pending),
    )
    return new


async def take_sign_in(tx: Tx, state: str, browser: str) -> PendingSignIn | None:
    """The sign-in of this state, if it began in this browser; it can't be taken again."""
    return await queries.maybe(
        tx, PendingSignIn, "take_sign_in", state=_digest(state), browser=_digest(browser)
    )


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
