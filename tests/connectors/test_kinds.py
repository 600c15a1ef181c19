"""What every kind of connector owes to people: a title, described settings, secrets that are never shown, translations."""

import re
from pathlib import Path

import pytest

from gristmill.connectors.port import ConnectorKind
from gristmill.connectors.registry import KINDS
from tests.docs.pages import ROOT

LOCALES = ROOT / "src/gristmill/server/ui/static/js/locales"
PAGES = [ROOT / "docs/reference/connectors.md", ROOT / "docs/reference/jira-confluence.md"]
# Secrets by their nature, and what is stored with them without being one.
PUBLIC_CREDENTIALS = {"appId", "installationId", "email", "username", "accessKeyId", "clientId"}


def read(paths: list[Path]) -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in paths)


def label(name: str) -> str:
    """The label that `form.js` makes of a setting's name."""
    words = re.sub(r"([A-Z])", r" \1", name).lower().capitalize()
    return re.sub(r"\b(url|jql|id|api)\b", lambda match: match[0].upper(), words, flags=re.IGNORECASE)


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_every_kind_is_described_documented_and_translated(kind: ConnectorKind) -> None:
    chinese, pages = read(sorted(LOCALES.glob("zh-*.js"))), read(PAGES)
    assert kind.title
    for schema in kind.json_schemas():
        for name, field in schema["properties"].items():
            description = field["description"].replace("`", "")
            for text in (label(name), description) if field.get("type") != "boolean" else (label(name),):
                assert f'"{text}":' in chinese or f"\n  {text}: " in chinese, text
            assert f"`{name}`" in pages, f"{kind.name}.{name} is not in docs/reference"
    credentials = kind.json_schemas()[1]["properties"]
    for name, field in credentials.items():
        is_secret = "writeOnly" in str(field)
        assert is_secret != (name in PUBLIC_CREDENTIALS), name
