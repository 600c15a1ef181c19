"""What every kind of connector owes to people: a title, described settings, secrets that are never shown, translations."""

import re
from pathlib import Path
from typing import Any

import pytest

from gristmill.catalog.access import EVERYBODY
from gristmill.connectors.files import FileFilter
from gristmill.connectors.port import ConnectorKind, ConnectorLimits
from gristmill.connectors.registry import KINDS, ConnectorRegistry
from gristmill.errors import Invalid
from gristmill.settings import Settings
from gristmill.vault import Vault
from tests.connectors.fakes.tool import serve_fake
from tests.connectors.harness import FAKES
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


_CREDENTIALS = "The connector's credentials are not valid"
_CONFIG = "The connector's config is not valid"
_REFUSALS: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("github", {}, {}, f"{_CREDENTIALS}: give a token, or appId, installationId and privateKey."),
    ("github", {"repositories": ["rye"]}, {"token": "t"}, f"{_CONFIG}: 'rye' is not owner/name."),
    (
        "google-drive",
        {},
        {},
        f"{_CREDENTIALS}: give serviceAccountKey, or clientId and clientSecret, or a token.",
    ),
    (
        "sharepoint",
        {"tenant": "acme", "users": ["ann"]},
        {},
        f"{_CREDENTIALS}: give clientId and clientSecret, with a refreshToken if needed, or a token.",
    ),
    ("sharepoint", {"tenant": "acme"}, {"token": "t"}, f"{_CONFIG}: give sites, users, or both."),
    (
        "sharepoint",
        {"tenant": "acme", "sites": ["acme"]},
        {"token": "t"},
        f"{_CONFIG}. config.sites: 'acme' is not the address of a site: it begins with https://.",
    ),
    (
        "webdav",
        {"baseUrl": "https://example.org"},
        {"username": "ann"},
        f"{_CREDENTIALS}: give username and password, or a token, or neither.",
    ),
    (
        "imap",
        {"host": "example.org"},
        {"username": "ann"},
        f"{_CREDENTIALS}: give a password, or clientId and clientSecret, or an access token.",
    ),
    (
        "mediawiki",
        {"apiUrl": "https://example.org"},
        {"username": "ann"},
        f"{_CREDENTIALS}: give username and password, or neither for a public wiki.",
    ),
    (
        "s3",
        {"bucket": "grain"},
        {"accessKeyId": "id"},
        f"{_CREDENTIALS}: give accessKeyId and secretAccessKey, or neither for a public bucket.",
    ),
    (
        "gcs",
        {"bucket": "grain"},
        {"serviceAccountKey": "{"},
        f"{_CREDENTIALS}. credentials.serviceAccountKey must be the key of a service account: JSON with private_key and client_email.",
    ),
    ("slack", {}, {}, f"{_CREDENTIALS}. credentials.token is missing."),
]


@pytest.mark.parametrize(("kind", "config", "credentials", "message"), _REFUSALS)
def test_invalid_settings_are_refused_in_whole_sentences(
    settings: Settings, kind: str, config: dict[str, Any], credentials: dict[str, Any], message: str
) -> None:
    vault = Vault(settings.secret_key, settings.data_dir)
    registry = ConnectorRegistry(vault, ConnectorLimits(allow_private=False))
    with pytest.raises(Invalid) as caught:
        registry.validate(kind, config, credentials)
    assert caught.value.message == message


@pytest.mark.parametrize("name", FAKES)
def test_a_kind_says_whether_its_tool_has_permissions(name: str) -> None:
    """Forms and commands warn by this that everyone sees the documents."""
    with serve_fake(FAKES[name]()) as tool:
        readers = {document.acl for document in tool.expected_documents().values()}
        assert KINDS[tool.kind].has_permissions == (readers != {frozenset({EVERYBODY})})


def test_object_stores_have_no_permissions() -> None:
    assert [KINDS[name].has_permissions for name in ("s3", "gcs", "azure", "imap")] == [
        False,
        False,
        False,
        True,
    ]


@pytest.mark.parametrize(
    ("glob", "followed", "left_out"),
    [
        ("*.md", ["a.md", "x/B.MD"], ["a.txt"]),
        ("docs/*.md", ["docs/a.md"], ["a.md", "x/docs/a.md"]),
        ("docs/**/*.md", ["docs/a.md", "docs/x/y/a.md"], ["a.md", "docsx/a.md", "x/docs/a.md"]),
        ("**/*.md", ["a.md", "x/y/a.md"], ["a.txt"]),
        ("**/drafts/**", ["drafts/a.md", "x/drafts/y/a.md"], ["xdrafts/a.md", "a.md"]),
        ("docs/**/v1/**/*.md", ["docs/v1/a.md", "docs/x/v1/y/a.md"], ["docs/x/a.md"]),
    ],
)
def test_globs_choose_files_by_name_or_by_path(glob: str, followed: list[str], left_out: list[str]) -> None:
    """`**/` stood for at least one folder: files directly in a folder were left out, or not excluded."""
    rules = FileFilter(files=[glob])
    paths = [*followed, *left_out]
    assert [path for path in paths if rules.is_followed(path)] == followed
    excluding = FileFilter(files=["*"], exclude=[glob])
    assert [path for path in paths if excluding.is_followed(path)] == left_out
