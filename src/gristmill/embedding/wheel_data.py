"""Data files of installed wheels, checked by their SHA-256: what was measured with them stays true."""

import hashlib
import importlib.util
from pathlib import Path

from gristmill.errors import SetupError


def find_package(name: str, requirement: str) -> Path:
    """The folder of an installed package."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise SetupError(
            f"The weights of a built-in embedder are not installed. Install {requirement}.",
            code="model_pack_missing",
        )
    return Path(spec.origin).parent


def read_verified(path: Path, sha256: str, requirement: str) -> bytes:
    """The bytes of a file. Raises SetupError unless they are those that this version of Gristmill supports."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SetupError(
            f"{path} can't be read ({error.strerror}). Install {requirement} again.",
            code="model_pack_missing",
        ) from error
    if hashlib.sha256(data).hexdigest() != sha256:
        raise SetupError(
            f"{path} is damaged or of another version. Install {requirement} again.",
            code="model_pack_damaged",
        )
    return data
