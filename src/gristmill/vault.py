"""Encrypts secrets at rest with AES-GCM; the keys are not in the database.

The keys are the setting `secret_key`, else the lines of a file: `secret_key_file`, or `secret.key` in the data dir, which is
created on first use and readable by its owner only. The first key seals, all of them open. A sealed value begins with the id of
its key; values of earlier releases have none, and every key is tried on them.

A running process looks at the file again when it has changed, and when it meets an id that it does not know, so that a new key
needs no restart. It never forgets a key that it has loaded: a value that it read before the old key was dropped still opens.

Each secret is bound to its owner (`about`), so that a secret copied to another row can't be decrypted there. With a lost
or different key, decryption fails with `secret_unreadable`. Processes on other machines need the same keys, so set them.
"""

import base64
import fcntl
import hashlib
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from pydantic import SecretStr

from gristmill.errors import Permanent, SetupError

KEY_FILE = "secret.key"
MARK = b"GM1"
ID_BYTES = 8
PREFIX_BYTES = len(MARK) + ID_BYTES
_KEY_BYTES, _NONCE_BYTES = 32, 12

_FileStamp = tuple[int, int, int]


class SecretUnreadable(Permanent):
    """A secret was encrypted with another key, or for another owner."""

    code = "secret_unreadable"


@dataclass(frozen=True)
class SealedRow:
    """A sealed value in the database, and the id of its row."""

    id: UUID
    sealed: bytes


@dataclass(frozen=True)
class ResealedRows:
    """One batch of a rotation: its last row, the number of its rows, and how many no key opens."""

    last: object | None
    count: int
    unreadable: int


class Vault:
    """Encrypts and decrypts secrets; creates the key file on first use."""

    def __init__(self, key: SecretStr | None, folder: Path, file: Path | None = None) -> None:
        self.file = None if key is not None else file or folder / KEY_FILE
        self._may_create = file is None
        self._stamp: _FileStamp | None = None
        self._ciphers: dict[bytes, AESGCM] = {}
        self._ids: tuple[bytes, ...] = ()
        if key is not None:
            self._use_keys(parse_keys(key.get_secret_value().replace(",", "\n"), "secret_key"))
        elif self.file is not None and self.file.exists():
            self._load_file()

    @property
    def key_ids(self) -> tuple[bytes, ...]:
        """The ids of the current keys; the first one seals."""
        self._refresh()
        return self._ids

    @property
    def prefix(self) -> bytes:
        """How values begin that are sealed now."""
        return MARK + self.key_ids[0]

    def seal(self, secret: str, about: str) -> bytes:
        """Encrypt `secret`; decrypting it requires the same `about`."""
        key_id = self.key_ids[0]
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return MARK + key_id + nonce + self._ciphers[key_id].encrypt(nonce, secret.encode(), about.encode())

    def open(self, sealed: bytes, about: str) -> str:
        """Decrypt a secret that was encrypted for `about`."""
        self._refresh()
        key_id = key_id_in(sealed)
        if key_id is not None and key_id not in self._ciphers and self.file is not None:
            self._load_file()
        attempts: list[tuple[AESGCM, bytes]] = []
        if key_id is not None and key_id in self._ciphers:
            attempts.append((self._ciphers[key_id], sealed[PREFIX_BYTES:]))
        attempts += [(cipher, sealed) for cipher in self._ciphers.values()]  # sealed by an earlier release
        for cipher, payload in attempts:
            try:
                plaintext = cipher.decrypt(payload[:_NONCE_BYTES], payload[_NONCE_BYTES:], about.encode())
            except (InvalidTag, ValueError):
                continue
            return plaintext.decode()
        raise SecretUnreadable(
            "A stored secret can't be decrypted: the key has changed. "
            "Restore the old key, or enter the secret again."
        )

    def reseal(self, sealed: bytes, about: str) -> bytes | None:
        """The same secret, sealed by the current key; None if no key opens it."""
        try:
            return self.seal(self.open(sealed, about), about)
        except SecretUnreadable:
            return None

    def _refresh(self) -> None:
        """Load the key file if it changed since it was loaded, or create it."""
        if self.file is None:
            return
        stamp = _file_stamp(self.file)
        if stamp is None and not self._ids:
            if not self._may_create:
                raise SetupError(
                    f"{self.file} does not exist: secret_key_file names it.", code="bad_secret_key"
                )
            _create_key_file(self.file)
        elif stamp is None or stamp == self._stamp:
            return  # a file that is gone leaves the keys that were loaded
        self._load_file()

    def _load_file(self) -> None:
        assert self.file is not None
        stamp = _file_stamp(self.file)
        if stamp is not None:
            self._use_keys(read_keys(self.file))
            self._stamp = stamp

    def _use_keys(self, keys: Sequence[bytes]) -> None:
        for key in keys:
            self._ciphers.setdefault(key_id_of(key), AESGCM(key))
        self._ids = tuple(key_id_of(key) for key in keys)


def key_id_in(sealed: bytes) -> bytes | None:
    """The id of the key that sealed a value; None for values of earlier releases."""
    return sealed[len(MARK) : PREFIX_BYTES] if sealed.startswith(MARK) else None


def key_id_of(key: bytes) -> bytes:
    """The id of a key, from which the key can't be computed."""
    return hashlib.sha256(b"gristmill sealing key" + key).digest()[:ID_BYTES]


def new_key() -> bytes:
    """A random key."""
    return secrets.token_bytes(_KEY_BYTES)


def parse_keys(text: str, origin: str) -> list[bytes]:
    """The keys of a setting or a file, one per line."""
    keys = [_decode_key(line.strip(), origin) for line in text.splitlines() if line.strip()]
    return keys or [_decode_key("", origin)]


def read_keys(path: Path) -> list[bytes]:
    """The keys of a file; the first one seals."""
    try:
        return parse_keys(path.read_text("ascii"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise SetupError(f"{path} can't be read: {error}", code="bad_secret_key") from error


def write_keys(path: Path, keys: Sequence[bytes]) -> None:
    """Replace a key file atomically: whoever reads it gets the old keys or the new ones."""
    temporary = _write_temporary(path, keys)
    try:
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    _fsync_folder(path.parent)


class KeyLock:
    """The lock of a key file, held by this process until `close`; the kernel releases that of a killed process."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def close(self) -> None:
        """Release the lock."""
        os.close(self._handle)


def acquire_key_lock(path: Path) -> KeyLock:
    """Wait to be the only process that changes this key file, or copies it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
    except BaseException:
        os.close(handle)
        raise
    return KeyLock(handle)


def _create_key_file(path: Path) -> None:
    """Create the key file atomically; if two processes create one, both use the first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _write_temporary(path, [new_key()])
    try:
        os.link(temporary, path)
    except FileExistsError:
        pass  # another process was first
    else:
        _fsync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def _write_temporary(path: Path, keys: Sequence[bytes]) -> Path:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.writelines(base64.b64encode(key) + b"\n" for key in keys)
        file.flush()
        os.fsync(file.fileno())
    return temporary


def _file_stamp(path: Path) -> _FileStamp | None:
    try:
        info = path.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SetupError(f"{path} can't be read: {error}", code="bad_secret_key") from error
    return info.st_ino, info.st_mtime_ns, info.st_size


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
