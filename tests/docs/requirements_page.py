"""The third column of docs/requirements.md: the tests that name each requirement in their docstrings.

python -m tests.docs.requirements_page      write the column again, after tests were added, renamed or removed
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "requirements.md"
NO_TEST = "–"
_ROW = re.compile(r"\| (S\d-\d\d) \| (.*?) \| (.*) \|")
_SLOW = "pytest.mark.slow"
_ID = re.compile(r"\bS\d-\d\d\b")


class NamingTest(NamedTuple):
    """A test, and the requirements that its docstring names."""

    path: str  # from the root of the repository
    name: str
    requirements: frozenset[str]
    is_slow: bool


def naming_tests() -> Iterator[NamingTest]:
    """Every test whose docstring names a requirement."""
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        is_slow_file = f"pytestmark = {_SLOW}" in text
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                requirements = frozenset(_ID.findall(ast.get_docstring(node) or ""))
                is_slow = is_slow_file or _SLOW in map(ast.unparse, node.decorator_list)
                if requirements:
                    yield NamingTest(path.relative_to(ROOT).as_posix(), node.name, requirements, is_slow)


def names_by_requirement() -> dict[str, set[str]]:
    """The names of the tests of each requirement."""
    tests: dict[str, set[str]] = defaultdict(set)
    for test in naming_tests():
        for requirement in test.requirements:
            tests[requirement].add(test.name)
    return tests


def listed_tests(page: str) -> dict[str, set[str]]:
    """The names of the tests that the page lists for each requirement."""
    rows = (_ROW.fullmatch(line) for line in page.splitlines())
    return {row[1]: set(re.findall(r"`(test_\w+)`", row[3])) for row in rows if row}


def render(page: str, tests: Mapping[str, set[str]]) -> str:
    """The page with these tests in its third column."""

    def render_line(line: str) -> str:
        row = _ROW.fullmatch(line)
        if row is None:
            return line
        names = ", ".join(f"`{name}`" for name in sorted(tests.get(row[1], ())))
        return f"| {row[1]} | {row[2]} | {names or NO_TEST} |"

    return "\n".join(render_line(line) for line in page.splitlines()) + "\n"


if __name__ == "__main__":
    PAGE.write_text(
        render(PAGE.read_text(encoding="utf-8"), names_by_requirement()), encoding="utf-8", newline="\n"
    )
