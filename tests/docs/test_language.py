"""The code and the documentation use the ordinary words of the trade: a word list, and rules for names and sizes."""

import ast
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

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


def prose() -> Iterator[tuple[Path, int, str]]:
    """Every line of prose of the repository."""
    for path in sources(".py"):
        for number, line in prose_of_python(path.read_text(encoding="utf-8")):
            yield path, number, line
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    for path in [*sources(".sql"), *sources(".js"), *sources(".html"), *sorted(pages)]:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            yield path, number, line


def prose_findings() -> Iterator[Finding]:
    for path, number, line in prose():
        for phrase, pattern in _BANNED.items():
            match = pattern.search(line)
            if match is not None and (name_of(path), match[0].lower()) not in ALLOWED:
                yield Finding(name_of(path), number, match[0], PROSE[phrase])
                break


def names(tree: ast.AST) -> Iterator[tuple[int, str, bool]]:
    """Every name that a module defines: its line, and whether it is a variable."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield node.lineno, name, False
            case ast.arg(arg=name):
                yield node.lineno, name, True
            case ast.Name(id=name, ctx=ast.Store()):
                yield node.lineno, name, True
            case ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name, True
            case _:
                pass


def words(name: str) -> list[str]:
    """The words of an identifier, in lower case."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().strip("_").split("_")


def name_findings() -> Iterator[Finding]:
    for path in sources(".py"):
        for number, name, is_variable in names(ast.parse(path.read_text(encoding="utf-8"))):
            if is_variable and name.strip("_") in VAGUE:
                yield Finding(name_of(path), number, name, "the noun for the thing")
            for word in words(name):
                if word in IDENTIFIERS and not (is_variable and name.strip("_") in VAGUE):
                    yield Finding(name_of(path), number, name, IDENTIFIERS[word])


def participles() -> Iterator[tuple[str, str, bool]]:
    """Functions named by a past participle: file, name, and whether they are async. Properties describe a state."""
    for path in sources(".py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                decorators = {getattr(d, "id", getattr(d, "attr", "")) for d in node.decorator_list}
                if is_participle(node.name) and not decorators & {"property", "cached_property"}:
                    yield name_of(path), node.name, isinstance(node, ast.AsyncFunctionDef)


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
    for path in sources(".py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                files[node.name.strip("_")].append(name_of(path))
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
    lines = {(name_of(path), line.lower()) for path, _, line in prose()}
    for file, phrase in ALLOWED:
        assert any(name == file and phrase in line for name, line in lines), f"{file}: {phrase}"


@pytest.mark.parametrize("text", ["The caller is told.", "Read it anew.", "Nobody waits."])
def test_the_word_list_finds_what_it_bans(text: str) -> None:
    assert any(pattern.search(text) for pattern in _BANNED.values())
