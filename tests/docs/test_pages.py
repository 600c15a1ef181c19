"""Links lead somewhere, and what ARCHITECTURE.md names is there."""

import ast
import re
from pathlib import Path
from urllib.parse import unquote

import pytest

from gristmill import work
from gristmill.db.migrate import schema_sql
from gristmill.jobs import Work
from gristmill.settings import Settings
from tests.docs.pages import ROOT, SOURCE, anchor, headings, pages, prose, read, rows

_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_NAMED = re.compile(r"`([^`\n]+)`")
_PATH = re.compile(r"[\w.-]+(/[\w.-]+)*(\.(py|sql|md|toml)|/)")
EXPLANATION = "docs/explanation"
_REQUIREMENT = re.compile(r"\b[SC]\d[\w-]*")


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    for link in _LINK.findall(prose(page.read_text(encoding="utf-8"))):
        if re.match(r"\w+:", link):
            continue
        file, _, fragment = unquote(link).partition("#")
        target = (page.parent / file) if file else page
        assert target.exists(), link
        if fragment:
            titles = headings(target.read_text(encoding="utf-8"))
            assert fragment in {anchor(title) for title in titles}, link


@pytest.mark.parametrize(
    "page",
    ["ARCHITECTURE.md", "CONTRIBUTING.md", f"{EXPLANATION}/flows.md", f"{EXPLANATION}/data-model.md"],
)
def test_every_path_that_a_page_names_exists(page: str) -> None:
    for name in _NAMED.findall(prose(read(page))):
        if _PATH.fullmatch(name) is None or "NNNN" in name or name == "gristmill.toml":  # a user's, not ours
            continue
        # A bare file name, such as `store.py`, means all files of that name.
        candidates = [folder / name for folder in (ROOT, SOURCE)] + list(SOURCE.rglob(name.strip("/")))
        assert any(path.exists() for path in candidates), f"{page}: {name}"


def test_every_test_that_guarantees_name_exists() -> None:
    test_names = {
        name
        for name in _NAMED.findall(read(f"{EXPLANATION}/guarantees.md"))
        if re.fullmatch(r"test_\w+", name)
    }
    assert test_names, "guarantees name the tests that keep them"
    assert test_names <= {function.name for function in functions()}


def test_every_package_is_in_the_layers() -> None:
    text = read("ARCHITECTURE.md")
    for entry in SOURCE.iterdir():
        if (entry / "__init__.py").is_file():
            assert f"`{entry.name}/`" in text, entry.name


def test_every_table_is_described() -> None:
    tables = set(re.findall(r"^create (?:unlogged )?table (\w+)", schema_sql(), re.MULTILINE))
    text = set(re.findall(r"^\| `(\w+)`", read(f"{EXPLANATION}/data-model.md"), re.MULTILINE))
    assert tables <= text


def test_every_kind_of_work_is_described_as_it_is() -> None:
    table = {
        row[0].strip("`"): row[1:] for row in rows(read(f"{EXPLANATION}/data-model.md")) if len(row) == 6
    }
    kinds = [kind for kind in vars(work).values() if isinstance(kind, type) and issubclass(kind, Work)]
    text = {kind.kind: kind for kind in kinds if kind not in (Work, work.ItemWork)}
    assert text
    assert text.keys() == table.keys() - {"kind"} - {name for name in table if set(name) <= set("-:")}
    for name, kind in text.items():
        _, handler, attempts, band, _ = table[name]
        assert attempts == f"{kind.attempts:,}", name
        assert band.startswith(kind.priority.name.lower()) or band == "the same", name
        assert name in (SOURCE / "work.py").read_text(encoding="utf-8"), name
        assert kind.__name__ in (SOURCE / handler.strip("`")).read_text(encoding="utf-8"), name


def test_every_decision_has_its_number_and_title_and_is_linked() -> None:
    decisions = sorted((ROOT / "docs" / "adr").glob("*.md"))
    assert [page.name[:4] for page in decisions] == [f"{n:04}" for n in range(1, len(decisions) + 1)]
    titles = {row[0]: row[1] for row in rows(read("docs/README.md")) if len(row) == 2}
    for page in decisions:
        number, name = page.name[:4], page.name
        title, *parts = headings(page.read_text(encoding="utf-8"))
        assert title == f"{number}: {titles[f'[{number}](adr/{name})']}"
        assert [part for part in parts if part != "Figures"] == ["Context", "Decision", "Consequences"], name


def test_every_setting_that_the_explanation_names_with_a_number_has_it() -> None:
    for name, number in re.findall(r"`(\w+)`(?: jobs)? \(([\d,]+)\)", read(f"{EXPLANATION}/failures.md")):
        assert int(number.replace(",", "")) == Settings.model_fields[name].default, name


def test_every_requirement_that_a_test_names_has_its_form() -> None:
    for function in functions():
        for name in _REQUIREMENT.findall(ast.get_docstring(function) or ""):
            assert re.fullmatch(r"S\d-\d\d|C\d{1,2}[a-z]?", name), f"{function.name}: {name}"


def functions() -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every test of the suite."""
    return [
        node
        for path in (ROOT / "tests").rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    ]
