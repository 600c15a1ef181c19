"""Labels and hints of connector forms come from the server's schemas, and lines of a run's log from its code. Each of them has a
Chinese translation."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel

import gristmill
from gristmill.connectors.registry import KINDS
from gristmill.server.ui.static_files import load


def test_labels_and_hints_of_connector_forms_are_translated() -> None:
    assets = load().assets
    locales = (
        assets[f"js/locales/{name}.js"].plain.decode()
        for name in ("zh-common", "zh-admin", "zh-connector-fields")
    )
    entries = re.findall(r'^  (?:"([^"]+)"|(\w+)):', "".join(locales), re.MULTILINE)
    texts = {
        text
        for kind in KINDS.values()
        for form in (kind.config, kind.credentials)
        for text in form_texts(form)
    }
    assert texts - {quoted or bare for quoted, bare in entries} == set()


def test_lines_of_a_log_are_translated() -> None:
    """Every sentence that is written to a log has its Chinese, and every Chinese one is still written. Notes of batches are written, too,
    and the reason why a drive is listed completely is a part of one."""
    locale = load().assets["js/locales/zh-run-log.js"].plain.decode()
    translated = {
        re.sub(r"\{\w+\}", "{}", text) for text in re.findall(r'^ +\[?\s*"([ -~]+)",', locale, re.MULTILINE)
    }
    written, all_texts = set[str](), set[str]()
    for file in (Path(gristmill.__file__).parent / "connectors").rglob("*.py"):
        nodes = [*ast.walk(ast.parse(file.read_text(encoding="utf-8")))]
        all_texts |= {text for node in nodes if (text := template(node))}
        written |= {
            text
            for node in nodes
            for text in map(template, logged_texts(node))
            if re.search("[a-z]{3}", text)  # not only what a tool or an error says
        }
    assert len(written) >= 14
    assert written - translated == set()
    assert translated - all_texts == set()


def logged_texts(node: ast.AST) -> list[ast.expr]:
    """The lines of a log that a statement or call writes, or gives to a batch."""
    match node:
        case ast.Call(func=function) if ast.unparse(function) == "store.add_log_line":
            return node.args[2:3]
        case ast.Call(func=ast.Name(id="_ListingNeeded")):
            return node.args
        case ast.Assign(targets=[ast.Name(id="note")]) | ast.keyword(arg="note"):
            return [node.value]
        case _:
            return []


def template(node: ast.AST) -> str:
    """The text of a string, with {} for each value in it."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(
            "{}" if isinstance(part, ast.FormattedValue) else template(part) for part in node.values
        )
    return ""


def form_texts(form: type[BaseModel]) -> Iterator[str]:
    """The labels and hints that the page derives from a form; checkboxes have no hint."""
    for name, schema in form.model_json_schema(by_alias=True)["properties"].items():
        yield label_for(name)
        if schema.get("type") != "boolean":
            yield schema["description"].replace("`", "")


def label_for(name: str) -> str:
    """The same as `labelFor` in `components/form.js`: `pullRequests` becomes "Pull requests"."""
    words = re.sub("([A-Z])", r" \1", name).lower()
    return re.sub(
        r"\b(url|jql|id|api)\b", lambda word: word[0].upper(), words[:1].upper() + words[1:], flags=re.I
    )
