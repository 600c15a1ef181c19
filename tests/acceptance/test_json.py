"""Every command that ends by itself can print JSON; the exceptions are listed with their reasons."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
import typer.main

from gristmill.cli.commands import cli
from tests.command_line import invoke
from tests.gristmill_process import environment

pytestmark = pytest.mark.slow

WITHOUT = {
    "serve": "runs until it is stopped; its log is JSON (`log_format`)",
    "worker": "runs until it is stopped; its log is JSON (`log_format`)",
}


def leaf_commands(name: str, command: Any) -> dict[str, Any]:
    """The commands that do something, by the words that start them."""
    subcommands = getattr(command, "commands", None)
    if subcommands is None:
        return {name: command}
    return {
        words: leaf
        for word, part in subcommands.items()
        for words, leaf in leaf_commands(f"{name} {word}".strip(), part).items()
    }


def test_every_command_takes_json_or_has_a_reason_not_to() -> None:
    commands = leaf_commands("", cast(Any, typer.main.get_command(cli)))
    assert len(commands) >= 17
    without = {
        name
        for name, command in commands.items()
        if not any("--json" in parameter.opts for parameter in command.params)
    }
    assert without == set(WITHOUT)


class JsonCli:
    """Runs commands with `--json` in this process."""

    def __init__(self, env: dict[str, str]) -> None:
        self._env = env

    def __call__(self, *words: str, code: int = 0) -> Any:
        result = invoke([*words, "--json"], self._env)
        assert result.exit_code == code, (words, result.output, result.exception)
        return json.loads(result.stdout)


@pytest.fixture
def run_json(data_dir: Path, cache_dir: Path, database_url: str, quick_embedder: dict[str, str]) -> JsonCli:
    env = environment(data_dir, cache_dir, database_url=database_url, **quick_embedder)
    return JsonCli({name: value for name, value in env.items() if name.startswith("GRISTMILL_")})


def test_json_output_is_one_document_and_nothing_else(run_json: JsonCli, tmp_path: Path) -> None:
    result = run_json("add", "notes", "--note", "The wheel turns.", "--wait")
    assert [item["status"] for item in result["ended"]] == ["completed"]
    error_output = run_json("add", "notes", str(tmp_path / "nothing-there"), code=1)
    assert [entry["error"]["code"] for entry in error_output["failed"]] == ["source_gone"]
    (base,) = run_json("status")
    assert (base["name"], base["itemCounts"], base["queue"]["queueSize"]) == ("notes", {"completed": 1}, 0)
    assert run_json("search", "notes", "wheel")["hits"][0]["text"] == "The wheel turns."
    rebuilt = run_json("reindex", "notes", "--wait")
    assert [item["status"] for item in rebuilt["ended"]] == ["completed"]
    assert {finding["what"] for finding in run_json("doctor")} >= {"settings", "disk", "database", "embedder"}
    assert run_json("connector", "list") == []
    secret = run_json("keys", "create", "one")["key"]
    assert run_json("keys", "revoke", "one")["prefix"] == secret[:11]
    assert run_json("audit")[0]["method"] == "DELETE"


def test_shells_complete_commands() -> None:
    gristmill = Path(sys.executable).with_name("gristmill")
    script = subprocess.run(
        ["bash", "-c", f"{gristmill} --show-completion; true"], capture_output=True, text=True, timeout=60
    )
    assert "complete" in script.stdout, script.stderr
    completion = {"_GRISTMILL_COMPLETE": "complete_bash", "COMP_WORDS": "gristmill se", "COMP_CWORD": "1"}
    process = subprocess.run(
        [gristmill], env={**os.environ, **completion}, capture_output=True, text=True, timeout=60
    )
    assert process.stdout.split() == ["serve", "search", "secrets"]
