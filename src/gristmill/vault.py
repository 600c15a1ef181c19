"""Encrypts secrets at rest with AES-GCM; the key is not in the database.

The key is the setting `secret_key`, else a file in the data dir that is created on first use, readable by its owner only.
Each secret is bound to its owner (`about`), so that a secret copied to another row can't be decrypted there. With a lost
or different key, decryption fails with `secret_unreadable`. Processes on other machines need the same key, so set it.
"""

import base64
import os
import secrets
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from pydantic import SecretStr

from gristmill.errors import Permanent, SetupError

KEY_FILE = "secret.key"
_KEY_BYTES, _NONCE_BYTES = 32, 12


class SecretUnreadable(Permanent):
    """A secret was encrypted with another key, or for another owner."""

    code = "secret_unreadable"


class Vault:
    """Encrypts and decrypts secrets; reads or creates the key on first use."""

    def __init__(self, key: SecretStr | None, folder: Path) -> None:
        self._cipher = None if key is None else AESGCM(_decode_key(key.get_secret_value(), "secret_key"))
        self._file = folder / KEY_FILE

    def seal(self, secret: str, about: str) -> bytes:
        """Encrypt `secret`; decrypting it requires the same `about`."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return nonce + self._load_cipher().encrypt(nonce, secret.encode(), about.encode())

    def open(self, sealed: bytes, about: str) -> str:
        """Decrypt a secret that was encrypted for `about`."""
        try:
            plaintext = self._load_cipher().decrypt(
                sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], about.encode()
            )
        except InvalidTag:
            raise SecretUnreadable(
                "A stored secret can't be decrypted: the key has changed. "
                "Restore the old key, or enter the secret again."
            ) from None
        return plaintext.decode()

    def _load_cipher(self) -> AESGCM:
        if self._cipher is None:
            self._cipher = AESGCM(self._read_key() or self._create_key())
        return self._cipher

    def _read_key(self) -> bytes | None:
        try:
            return _decode_key(self._file.read_text("ascii").strip(), str(self._file))
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise SetupError(f"{self._file} can't be read: {error}", code="bad_secret_key") from error

    def _create_key(self) -> bytes:
        """Create the key file atomically; if two processes create one, both use the first."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        temporary = self._file.with_name(f".{KEY_FILE}.{secrets.token_hex(8)}")
        try:
            with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(base64.b64encode(secrets.token_bytes(_KEY_BYTES)) + b"\n")
                file.flush()
                os.fsync(file.fileno())
            try:
                os.link(temporary, self._file)
            except FileExistsError:
                pass  # another process was first
            else:
                _fsync_folder(self._file.parent)
        finally:
            temporary.unlink(missing_ok=True)
        key = self._read_key()
        assert key is not None
        return key


def _fsync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _decode_key(text: str, origin: str) -> bytes:
    try:
        key = base64.b64decode(text, validate=True)
    except ValueError:
        key = b""
    if len(key) != _KEY_BYTES:
        raise SetupError(
            f"{origin} is not a valid key: it must be 32 bytes in base64.", code="bad_secret_key"
        )
    return key
