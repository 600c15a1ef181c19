"""docs/requirements.md lists every requirement with the tests that name it, and tests name no others."""

import ast
import re
from collections import defaultdict

from tests.docs.pages import ROOT, read, rows

PAGE = "docs/requirements.md"
COUNTS = {"S0": 49, "S1": 23, "S2": 40, "S3": 23, "S4": 70}


def listed_tests() -> dict[str, set[str]]:
    """The tests of each requirement on the page."""
    return {
        row[0]: set(re.findall(r"`(test_\w+)`", row[2]))
        for row in rows(read(PAGE))
        if re.fullmatch(r"S\d-\d\d", row[0])
    }


def naming_tests() -> dict[str, set[str]]:
    """The tests whose docstrings name each requirement."""
    tests: dict[str, set[str]] = defaultdict(set)
    for path in (ROOT / "tests").rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                for name in re.findall(r"\bS\d-\d\d\b", ast.get_docstring(node) or ""):
                    tests[name].add(node.name)
    return tests


def test_every_requirement_is_listed() -> None:
    expected = {f"{seed}-{n:02}" for seed, count in COUNTS.items() for n in range(1, count + 1)}
    assert set(listed_tests()) == expected


def test_the_page_lists_exactly_the_tests_that_name_a_requirement() -> None:
    naming = naming_tests()
    assert listed_tests() == {name: naming.get(name, set()) for name in listed_tests()}
    assert set(naming) <= set(listed_tests())
