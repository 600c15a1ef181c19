"""Secrets at rest: sealed with AES-GCM under a key that is not in the database.

The key is the setting `secret_key`, else a file of the data dir that is made at the first use, readable by its owner
alone. A sealed secret is bound to what it is about, so that one row's can't be put into another. With a lost or another
key nothing is opened: `secret_unreadable`. Processes on other machines need the same key, so they need the setting.
"""

import base64
import os
import secrets
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from pydantic import SecretStr

from gristmill.errors import Permanent, SetupError

FILE = "secret.key"
_KEY, _NONCE = 32, 12


class SecretUnreadable(Permanent):
    """A secret was sealed under another key, or for something else."""

    code = "secret_unreadable"


class Vault:
    """Seals and opens secrets; the key is read, or made, when it is first needed."""

    def __init__(self, key: SecretStr | None, folder: Path) -> None:
        self._cipher = None if key is None else AESGCM(_decoded(key.get_secret_value(), "secret_key"))
        self._file = folder / FILE

    def seal(self, secret: str, about: str) -> bytes:
        """`secret`, unreadable without the key; `about` has to be told again to open it."""
        nonce = secrets.token_bytes(_NONCE)
        return nonce + self._opened().encrypt(nonce, secret.encode(), about.encode())

    def open(self, sealed: bytes, about: str) -> str:
        """The secret that was sealed for `about`."""
        try:
            opened = self._opened().decrypt(sealed[:_NONCE], sealed[_NONCE:], about.encode())
        except InvalidTag:
            raise SecretUnreadable(
                "A stored secret can't be read: the key is not the one it was sealed with. "
                "Restore the key, or give the secret anew."
            ) from None
        return opened.decode()

    def _opened(self) -> AESGCM:
        if self._cipher is None:
            self._cipher = AESGCM(self._read() or self._make())
        return self._cipher

    def _read(self) -> bytes | None:
        try:
            return _decoded(self._file.read_text("ascii").strip(), str(self._file))
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise SetupError(f"{self._file} can't be read: {error}", code="bad_secret_key") from error

    def _make(self) -> bytes:
        """A new key, whole under its name or not at all; of two processes that make one, both use the first."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        part = self._file.with_name(f".{FILE}.{secrets.token_hex(8)}")
        try:
            with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(base64.b64encode(secrets.token_bytes(_KEY)) + b"\n")
                file.flush()
                os.fsync(file.fileno())
            try:
                os.link(part, self._file)
            except FileExistsError:
                pass  # another was first
            else:
                _sync(self._file.parent)
        finally:
            part.unlink(missing_ok=True)
        made = self._read()
        assert made is not None
        return made


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _decoded(text: str, where: str) -> bytes:
    try:
        key = base64.b64decode(text, validate=True)
    except ValueError:
        key = b""
    if len(key) != _KEY:
        raise SetupError(f"{where} is not a key: it takes 32 bytes in base64.", code="bad_secret_key")
    return key
