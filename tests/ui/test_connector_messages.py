"""Labels and hints of connector forms come from the server's schemas. Each of them has a Chinese translation."""

import re
from collections.abc import Iterator

from pydantic import BaseModel

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
