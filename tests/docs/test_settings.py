"""docs/reference/settings.md says of every setting what the code says of it."""

import re
import types
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

import annotated_types
import pytest
from pydantic import BaseModel, SecretStr, TypeAdapter
from pydantic.fields import FieldInfo

from gristmill.settings import CONFIG_VARIABLE, ENV_PREFIX, EmbedderSettings, ProcessorSettings, Settings
from tests.docs.pages import blocks, read, rows

PAGE = "docs/reference/settings.md"

# Defaults that differ from machine to machine, in words.
COMPUTED = {
    "data_dir": "the user's data folder",
    "cache_dir": "the user's cache folder",
    "embed_threads": "one for each core",
    "reader_processes": "four for every three cores",
    "embedders": "none",
    "allowed_hosts": "none",
    "allowed_paths": "none",
    "trusted_proxies": "loopback",
    "processors": "none",
    "secret_folders": "none",
    "secret_variables": "none",
    "secret_commands": "none",
    "oidc_groups": "none",
    "oidc_roles": "none",
}
WORDS = {
    int: "whole number",
    float: "number",
    str: "text",
    bool: "true or false",
    timedelta: "duration",
    SecretStr: "secret",
}


def type_in_words(field: FieldInfo) -> str:
    kind = in_words(field.annotation)
    bounds = cast(list[object], field.metadata)
    low = next((bound.ge for bound in bounds if isinstance(bound, annotated_types.Ge)), None)
    high = next((bound.le for bound in bounds if isinstance(bound, annotated_types.Le)), None)
    if low is not None and high is not None:
        return f"{kind}, {low:,} to {high:,}"
    if low is not None:
        return f"{kind}, at least {low:,}"
    return kind


def in_words(kind: Any) -> str:
    if get_origin(kind) in (Union, types.UnionType):
        return in_words(next(part for part in get_args(kind) if part is not type(None)))
    if get_origin(kind) is Literal:
        return ", ".join(f"`{choice}`" for choice in get_args(kind))
    if get_origin(kind) is list:
        return f"list of {in_words(get_args(kind)[0])}s"
    if get_origin(kind) is dict:
        value = get_args(kind)[1]
        if get_origin(value) is Literal:
            return "table of roles"
        words = {EmbedderSettings: "embedders", ProcessorSettings: "processors", str: "texts"}
        return f"table of {words.get(value, 'lists')}"
    if get_origin(kind) is Annotated:
        return in_words(get_args(kind)[0])
    if isinstance(kind, type) and issubclass(kind, Path):
        return "path"
    return WORDS[kind]


def default_in_words(name: str, field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    if field.default_factory is not None:
        return COMPUTED[name]
    match field.default:
        case None:
            return "none"
        case "":
            return "empty"
        case bool() as choice:
            return "true" if choice else "false"
        case timedelta() as duration:
            return f"`{TypeAdapter(timedelta).dump_python(duration, mode='json')}`"
        case other:
            return f"`{other}`"


def expected(model: type[BaseModel], *, variable: bool) -> Iterator[list[str]]:
    for name, field in model.model_fields.items():
        row = [f"`{name}`", type_in_words(field), default_in_words(name, field), field.description or ""]
        yield [row[0], f"`{ENV_PREFIX}{name.upper()}`", *row[1:]] if variable else row


def test_every_setting_is_documented_as_it_is() -> None:
    setting_rows = [row for row in rows(read(PAGE)) if row[0] != "name"]
    assert [row for row in setting_rows if len(row) == 5] == list(expected(Settings, variable=True))
    tables = [*expected(ProcessorSettings, variable=False), *expected(EmbedderSettings, variable=False)]
    assert [row for row in setting_rows if len(row) == 4] == tables


def test_every_variable_that_a_page_names_is_one() -> None:
    variables = {ENV_PREFIX + name.upper() for name in Settings.model_fields} | {CONFIG_VARIABLE}
    for page in (
        "README.md",
        "CONTRIBUTING.md",
        "docs/reference/settings.md",
        "docs/reference/commands.md",
        "docs/limits.md",
    ):
        for name in re.findall(rf"{ENV_PREFIX}[A-Z][A-Z_]*[A-Z]", read(page)):
            assert name.split("__")[0] in variables, f"{page}: {name}"


def test_the_example_file_is_one_that_gristmill_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (example,) = [block.text for block in blocks(read(PAGE)) if block.language == "toml"]
    (tmp_path / "gristmill.toml").write_text(example)
    monkeypatch.setenv(CONFIG_VARIABLE, str(tmp_path / "gristmill.toml"))
    assert Settings().embedders["ollama"].dimensions == 768
