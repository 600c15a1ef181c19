"""Bases are created for something that can be added, and deleted only on purpose."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import RunCommand
from tests.terminal import run_in_terminal

pytestmark = pytest.mark.slow


def base_names(run: RunCommand) -> list[str]:
    """The bases that exist."""
    return [base["name"] for base in json.loads(run("base", "list", "--json").stdout)]


def test_a_path_that_does_not_exist_creates_no_base(run: RunCommand, tmp_path: Path) -> None:
    missing = tmp_path / "no" / "such" / "[path].md"
    result = run("add", "typo", str(missing))
    assert result.code == 1
    assert result.stdout == (
        f"not added {missing}: It does not exist. (source_gone)\nThe base typo was not created.\n"
    )
    assert base_names(run) == []
    result = json.loads(run("add", "typo", str(missing), "--json").stdout)
    assert result == {
        "created": [],
        "failed": [
            {
                "index": 0,
                "path": str(missing),
                "error": {"code": "source_gone", "message": "It does not exist."},
            }
        ],
    }


def test_an_invalid_address_creates_no_base(run: RunCommand) -> None:
    result = run("add", "typo", "htp://oops")
    assert (result.code, "'htp://oops' is not an http or https address. (invalid_url)" in result.stdout) == (
        1,
        True,
    )
    assert base_names(run) == []


def test_a_base_is_created_for_the_paths_that_exist(run: RunCommand, tmp_path: Path) -> None:
    (tmp_path / "wheat.md").write_text("Wheat is ground into flour.")
    result = run("add", "grain", str(tmp_path / "wheat.md"), str(tmp_path / "rye.md"))
    assert result.code == 1
    assert "1 accepted in grain." in result.stdout
    assert "rye.md" in result.stdout
    assert base_names(run) == ["grain"]


def test_bases_are_created_renamed_and_deleted(run: RunCommand) -> None:
    assert run("base", "list").stdout.startswith("No knowledge bases yet.")
    assert run("base", "create", "notes").stdout == "Created notes.\n"
    duplicate = run("base", "create", "Notes")
    assert duplicate.code == "base_name_taken"
    assert run("base", "rename", "notes", "diary").stdout == "Renamed notes to diary.\n"
    result = run("base", "delete", "diary")
    assert result.code == "confirmation_required"
    output = json.loads(run("base", "delete", "diary", "--yes", "--json").stdout)
    assert output["name"] == "diary"
    assert base_names(run) == []
    absent = run("base", "delete", "diary", "--yes")
    assert absent.code == "base_not_found"


def test_a_deletion_is_confirmed_in_a_terminal(env: dict[str, str], run: RunCommand) -> None:
    run("add", "notes", "--note", "one", "--note", "two")
    question = "Delete notes with 2 items? This can't be undone. [y/N] "
    declined = run_in_terminal(env, "base", "delete", "notes", prompt=question, keys="\n")
    assert (declined.code, "Nothing was deleted." in declined.text) == (1, True)
    interrupted = run_in_terminal(env, "base", "delete", "notes", prompt=question, keys="\x03")
    assert (interrupted.code, interrupted.lines[-1]) == (130, f"{question}^Cgristmill: interrupted.")
    assert base_names(run) == ["notes"]
    confirmed = run_in_terminal(env, "base", "delete", "notes", prompt=question, keys="y\n")
    assert (confirmed.code, "Deleted notes." in confirmed.text) == (0, True)
    assert base_names(run) == []
