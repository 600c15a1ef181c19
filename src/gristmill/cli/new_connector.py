"""The work of `gristmill connector new`: writes a package with a connector that works, and a test of it."""

import re
from importlib import resources
from pathlib import Path

from gristmill.cli.client_session import Refused
from gristmill.connectors.registry import KINDS

_NAME = re.compile(r"(?=.{2,41}$)[a-z][a-z0-9]*(_[a-z0-9]+)*")


def write_connector(name: str, folder: Path) -> Path:
    """Write the package `gristmill-NAME` into a folder that does not exist yet; its path."""
    if not _NAME.fullmatch(name):
        raise Refused(
            f"{name!r} can't be the name of a connector. Use small letters and digits, with single underscores between them.",
            code="bad_option",
        )
    if name in KINDS:
        raise Refused(
            f"Gristmill has a connector named {name} itself. Choose another name.", code="bad_option"
        )
    target = folder / f"gristmill-{name.replace('_', '-')}"
    if target.exists():
        raise Refused(f"{target} exists already. Choose another name or folder.", code="bad_option")
    template = resources.files("gristmill.connectors") / "template"
    for source, path in (
        ("pyproject.toml.txt", "pyproject.toml"),
        ("sample.py", f"src/gristmill_{name}/__init__.py"),
        ("test_sample.py.txt", f"tests/test_{name}.py"),
    ):
        file = target / path
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(_rename((template / source).read_text(encoding="utf-8"), name), encoding="utf-8")
        except OSError as error:
            raise Refused(f"{file} can't be written: {error.strerror}.", code="bad_option") from error
    return target


def _rename(text: str, name: str) -> str:
    words = name.split("_")
    camel, title = "".join(word.capitalize() for word in words), " ".join(words).capitalize()
    new_words = {
        "gristmill-sample": f"gristmill-{name.replace('_', '-')}",
        "SampleC": f"{camel}C",  # of a class
        "Sample": title,
        "sample": name,
    }
    # In one pass: the new name may contain the old one.
    return re.sub("|".join(new_words), lambda match: new_words[match[0]], text)
