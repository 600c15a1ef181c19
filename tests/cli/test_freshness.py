"""Freshness by command: rules of bases and items, checks on request, and what was deleted from a folder."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import RunCommand

pytestmark = pytest.mark.slow


def test_rules_are_set_sources_checked_and_deletions_taken_back(run: RunCommand, tmp_path: Path) -> None:
    folder = tmp_path / "mill"
    folder.mkdir()
    (folder / "stones.md").write_text("Both stones are dressed in spring.")
    assert run("add", "notes", str(folder), "--wait").code == 0
    assert (
        run("base", "refresh", "notes", "--every", "6h").stdout == "Sources of notes are checked every 6h.\n"
    )
    assert run("base", "refresh", "notes").code == "bad_option"
    assert run("base", "refresh", "notes", "--every", "soon").code == "invalid_refresh"
    root, file = json.loads(run("item", "list", "notes", "--all", "--json").stdout)
    shown = json.loads(
        run("item", "refresh", root["id"], "--cron", "0 6 * * 1", "--no-watch", "--json").stdout
    )
    assert shown["refresh"] == {"every": None, "cron": "0 6 * * 1"}
    assert shown["freshness"]["refreshFrom"] == "item"
    assert shown["freshness"]["watch"]["state"] == "off"
    assert run("item", "refresh", root["id"], "--inherit").stdout == "mill is checked every 6h; watch: off.\n"
    assert run("item", "refresh", root["id"]).stdout == "Checking mill.\n"
    assert run("item", "refresh", file["id"]).stdout == "Checking stones.md.\n"

    assert run("item", "delete", file["id"], "--yes").code == 0
    (exclusion,) = json.loads(run("base", "exclusions", "notes", "--json").stdout)["items"]
    assert exclusion["source"] == str(folder / "stones.md")
    assert str(folder / "stones.md") in run("base", "exclusions", "notes").stdout
    taken_back = run("base", "exclusions", "notes", "--take-back", exclusion["id"]).stdout
    assert taken_back == "1 exclusion removed. The next check finds the sources again.\n"
    assert run("base", "exclusions", "notes").stdout == "Nothing was deleted from containers of this base.\n"


def test_a_folder_is_added_with_a_rule_and_unwatched(run: RunCommand, tmp_path: Path) -> None:
    """Both are in force from the start; options that apply to nothing are refused, and nothing is added."""
    (tmp_path / "stones.md").write_text("Both stones are dressed in spring.")
    folder = str(tmp_path)
    assert run("add", "mill", "--note", "rye", "--every", "1h").code == "not_refreshable"
    assert run("add", "mill", str(tmp_path / "stones.md"), "--no-watch").code == "not_watchable"
    assert run("add", "mill", folder, "--every", "1h", "--cron", "0 6 * * 1").code == "bad_option"
    assert json.loads(run("base", "list", "--json").stdout) == []
    added = json.loads(run("add", "mill", folder, "--every", "1h", "--no-watch", "--json").stdout)
    shown = json.loads(run("item", "show", added["created"][0]["id"], "--json").stdout)
    assert shown["refresh"] == {"every": "1h", "cron": None}
    assert shown["freshness"]["watch"]["state"] == "off"
