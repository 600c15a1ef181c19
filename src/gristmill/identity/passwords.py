"""Passwords of local accounts: argon2id with the parameters of RFC 9106 for little memory.

Hashing takes tens of milliseconds and 64 MiB, so it runs in a thread, for two passwords at a time: a flood of sign-ins waits here and
takes neither the memory nor the event loop of the server. The password of an unknown account is checked against a hash that nothing
matches, so that the time does not show whether an account exists.
"""

import asyncio
import functools

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from gristmill.errors import FieldError, Invalid

MIN_LENGTH = 10
MAX_LENGTH = 1000  # bounds what an anonymous request makes us hash
_CONCURRENT_CHECKS = 2
_hasher = PasswordHasher()


def check_password(password: str) -> None:
    """Raise `Invalid` for a password that is too short or too long."""
    if not MIN_LENGTH <= len(password) <= MAX_LENGTH:
        raise Invalid(
            f"A password has {MIN_LENGTH} to {MAX_LENGTH} characters. Choose another one.",
            code="bad_password",
            fields=[FieldError("password", f"must have {MIN_LENGTH} to {MAX_LENGTH} characters")],
        )


async def hash_password(password: str) -> str:
    """The hash to store. Raises `Invalid` for a password that is too short or too long."""
    check_password(password)
    return await asyncio.to_thread(_hasher.hash, password)


class PasswordChecker:
    """Checks passwords, two at a time."""

    def __init__(self) -> None:
        self._places = asyncio.Semaphore(_CONCURRENT_CHECKS)

    async def is_password(self, password: str, stored_hash: str | None) -> bool:
        """Whether a password matches; without a hash it does not, after the same time."""
        async with self._places:
            matches = await asyncio.to_thread(_matches, password, stored_hash)
        return matches and stored_hash is not None


def _matches(password: str, stored_hash: str | None) -> bool:
    try:
        return _hasher.verify(stored_hash or _hash_of_unknown_account(), password)
    except (VerificationError, InvalidHashError):
        return False


@functools.cache
def _hash_of_unknown_account() -> str:
    return _hasher.hash("of an account that does not exist")
