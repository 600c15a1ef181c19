"""The code and the documentation use the ordinary words of the trade: a word list, and rules for names and sizes."""

import ast
import functools
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest

from tests.docs.pages import ROOT, SOURCE

# A pattern for prose (comments, docstrings, messages, SQL, JavaScript, HTML, markdown), and what to write instead.
PROSE = {
    r"(is|are|was|were) told": "is returned, logged, shown, notified",
    r"tells?|told": "returns, reports, logs, shows, says",
    r"anew": "again",
    r"whose eyes|(these|those|all) eyes|eyes see": "viewer, principals",
    r"by hand|a hand": "manually, worker",
    r"for who": "for callers that",
    r"who (comes|asks|waits)": "the caller",
    r"for ever": "forever, or say when it ends",
    r"nobody|somebody|whosoever": "no one, a user, another worker",
    r"beside (it|them|the)": "next to",
    r"stands (in|for|at)": "is in, means, is at",
    r"what was (said|told|asked)": "the request, the message",
}
# A word of an identifier, and what to use instead.
IDENTIFIERS = {
    "anew": "again, new version",
    "told": "message, output",
    "eyes": "principals, viewer",
    "shelf": "cache",
    "tally": "count",
    "tidy": "compact",
    "courier": "pump",
    "stray": "pending",
    "deed": "action",
    "aside": "the name of the effect",
    "crew": "offload, pool",
    "doors": "server",
    "entrance": "middleware",
    "surroundings": "limits",
    "untold": "ignored",
}
# Variables that name the act of getting something instead of the thing.
VAGUE = ("told", "asked", "given", "found", "one", "kept", "whole", "most", "aside", "anew")

# (file, phrase): the reason why the phrase is right there.
ALLOWED: dict[tuple[str, str], str] = {
    ("README.md", "nobody"): "two of the promises",
    ("docs/explanation/guarantees.md", "nobody"): "the name of a promise",
    (
        "src/gristmill/ingest/image_describers.py",
        "somebody",
    ): "the prompt is part of the identity of stored descriptions",
}
# Class names that two packages share: the reason why neither should change.
SHARED_CLASSES = {
    "Base": "the client's view of a base has the name that its users expect",
    "Item": "the client's view of an item, as above",
    "Hit": "the client's view of a hit, as above",
    "GristmillRetriever": "users import it from the module of their framework",
}
MAX_SHARED_CLASSES = 15
MAX_PARTICIPLES = 20
MAX_LINES = 400
MAX_ARCHITECTURE_LINES = 200

IRREGULAR = frozenset(
    [
        "told",
        "found",
        "kept",
        "held",
        "made",
        "given",
        "taken",
        "written",
        "shown",
        "seen",
        "left",
        "sent",
        "gone",
        "said",
        "done",
        "met",
        "won",
        "lost",
        "drawn",
        "known",
        "thrown",
        "hidden",
        "chosen",
        "begun",
    ]
)
NOT_PARTICIPLES = frozenset(
    ["need", "feed", "speed", "seed", "embed", "exceed", "proceed", "bed", "fed", "shed", "read"]
)

_BANNED = {phrase: re.compile(rf"\b(?:{phrase})\b", re.IGNORECASE) for phrase in PROSE}
_ANY_BANNED = re.compile(rf"\b(?:{'|'.join(PROSE)})\b", re.IGNORECASE)


@dataclass(frozen=True)
class Finding:
    """A banned phrase or name at a place."""

    file: str
    line: int
    text: str
    advice: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text!r}: write {self.advice}"


def sources(suffix: str) -> list[Path]:
    return sorted(path for path in SOURCE.rglob(f"*{suffix}") if "__pycache__" not in path.parts)


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def prose_of_python(text: str) -> Iterator[tuple[int, str]]:
    """The comments and strings of a module, with their lines."""
    strings = {tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT or token.type in strings:
            for offset, line in enumerate(token.string.splitlines()):
                yield token.start[0] + offset, line


def prose(path: Path) -> Iterable[tuple[int, str]]:
    """The lines of prose of a file, with their numbers."""
    text = path.read_text(encoding="utf-8")
    return prose_of_python(text) if path.suffix == ".py" else enumerate(text.splitlines(), 1)


def files_with_prose() -> list[Path]:
    pages = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
    return [*sources(".py"), *sources(".sql"), *sources(".js"), *sources(".html"), *pages]


def prose_findings() -> Iterator[Finding]:
    for path in files_with_prose():
        for number, line in prose(path):
            for phrase, pattern in _BANNED.items() if _ANY_BANNED.search(line) else ():
                match = pattern.search(line)
                if match is not None and (name_of(path), match[0].lower()) not in ALLOWED:
                    yield Finding(name_of(path), number, match[0], PROSE[phrase])
                    break


class Definition(NamedTuple):
    """A name that a module defines."""

    file: str
    line: int
    name: str
    kind: Literal["class", "function", "async function", "property", "variable"]


@functools.cache
def definitions() -> list[Definition]:
    """Every name that the source defines."""
    return [
        Definition(name_of(path), *definition)
        for path in sources(".py")
        for definition in names(ast.parse(path.read_text(encoding="utf-8")))
    ]


def names(tree: ast.AST) -> Iterator[tuple[int, str, Any]]:
    """Every name that a module defines: its line, and what it is."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                decorators = {getattr(d, "id", getattr(d, "attr", "")) for d in node.decorator_list}
                is_async = isinstance(node, ast.AsyncFunctionDef)
                kind = "async function" if is_async else "function"
                yield (
                    node.lineno,
                    name,
                    "property" if decorators & {"property", "cached_property"} else kind,
                )
            case ast.ClassDef(name=name):
                yield node.lineno, name, "class"
            case ast.arg(arg=name):
                yield node.lineno, name, "variable"
            case ast.Name(id=name, ctx=ast.Store()):
                yield node.lineno, name, "variable"
            case ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name, "variable"
            case _:
                pass


def words(name: str) -> list[str]:
    """The words of an identifier, in lower case."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().strip("_").split("_")


def name_findings() -> Iterator[Finding]:
    for file, number, name, kind in definitions():
        is_vague = kind == "variable" and name.strip("_") in VAGUE
        if is_vague:
            yield Finding(file, number, name, "the noun for the thing")
        for word in words(name):
            if word in IDENTIFIERS and not is_vague:
                yield Finding(file, number, name, IDENTIFIERS[word])


def participles() -> Iterator[tuple[str, str, bool]]:
    """Functions named by a past participle: file, name, and whether they are async. Properties describe a state."""
    for file, _, name, kind in definitions():
        if kind in ("function", "async function") and is_participle(name):
            yield file, name, kind == "async function"


def is_participle(name: str) -> bool:
    first = name.strip("_").split("_")[0]
    return first not in NOT_PARTICIPLES and (
        first in IRREGULAR or (first.endswith("ed") and len(first) > len("red"))
    )


def test_prose_uses_plain_words() -> None:
    assert list(map(str, prose_findings())) == []


def test_names_use_plain_words() -> None:
    assert list(map(str, name_findings())) == []


def test_functions_are_named_by_what_they_do_or_return() -> None:
    """A participle reads as a predicate: an effect is an imperative verb, a value is a noun."""
    names_found = list(participles())
    asynchronous = {f"{file}:{name}" for file, name, is_async in names_found if is_async}
    assert sorted(asynchronous) == []
    synchronous = [f"{file}:{name}" for file, name, is_async in names_found if not is_async]
    assert len(synchronous) < MAX_PARTICIPLES, synchronous


def test_a_class_name_means_one_thing() -> None:
    files: defaultdict[str, list[str]] = defaultdict(list)
    for file, _, name, kind in definitions():
        if kind == "class":
            files[name.strip("_")].append(file)
    duplicates = {name for name, paths in files.items() if len(paths) > 1}
    assert duplicates == SHARED_CLASSES.keys()
    assert len(SHARED_CLASSES) <= MAX_SHARED_CLASSES


def test_source_files_are_short() -> None:
    for path in [path for suffix in (".py", ".sql", ".js", ".css") for path in sources(suffix)]:
        lines = path.read_text(encoding="utf-8").count("\n")
        assert lines <= MAX_LINES, f"{name_of(path)}: {lines} lines"


def test_the_architecture_is_a_map() -> None:
    assert len((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").splitlines()) <= MAX_ARCHITECTURE_LINES


def test_allowed_phrases_are_in_use() -> None:
    for file, phrase in ALLOWED:
        assert any(phrase in line.lower() for _, line in prose(ROOT / file)), f"{file}: {phrase}"


@pytest.mark.parametrize("text", ["The caller is told.", "Read it anew.", "Nobody waits."])
def test_the_word_list_finds_what_it_bans(text: str) -> None:
    assert any(pattern.search(text) for pattern in _BANNED.values())
