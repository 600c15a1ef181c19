"""Items, searches, events and the queue by command: tables for people, JSON of the API, nothing lost in a pipe."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import RunCommand
from tests.terminal import run_in_terminal

pytestmark = pytest.mark.slow


def items_of(run: RunCommand, *options: str) -> list[dict[str, Any]]:
    return json.loads(run("item", "list", "notes", *options, "--json").stdout)


@pytest.fixture
def folder(run: RunCommand, tmp_path: Path) -> Path:
    """A base with a folder of a readable and an unreadable file, and a note."""
    path = tmp_path / "mill"
    path.mkdir()
    (path / "stones.md").write_text("# Stones\n\nBoth stones are dressed in spring.")
    (path / "broken.md").write_bytes(b"\0\0\0")
    assert run("add", "notes", str(path), "--note", "A wheel.\nIt turns.", "--wait").code == 1
    return path


def test_items_are_listed_shown_retried_and_deleted(
    run: RunCommand, env: dict[str, str], folder: Path
) -> None:
    assert [item["title"] for item in items_of(run)] == ["mill", "A wheel."]
    assert len(items_of(run, "--all")) == 4
    assert [item["title"] for item in items_of(run, "--title", "STONE")] == ["stones.md"]
    assert [item["type"] for item in items_of(run, "--type", "note")] == ["note"]
    (broken,) = items_of(run, "--status", "failed")
    (container,) = items_of(run, "--type", "directory")
    assert len(items_of(run, "--under", container["id"])) == 2
    table = run("item", "list", "notes", "--status", "failed", COLUMNS="40").stdout
    assert f"{broken['error']['message']} (unsupported_type)" in table
    assert run("item", "list", "notes", "--status", "embedding").stdout == "No such items.\n"
    assert "broken.md" in run("item", "show", broken["id"]).stdout
    assert json.loads(run("item", "show", broken["id"], "--json").stdout)["id"] == broken["id"]
    assert run("item", "show", "../x").code == "invalid_request"

    (folder / "broken.md").write_text("The river flows.")
    retried = json.loads(run("item", "retry", "--base", "notes", "--json").stdout)
    assert retried == {"rootIds": [broken["id"]], "failed": []}
    assert run("reindex", "notes", "--on-active", "skip", "--wait").code == 0
    refused = run("item", "retry", broken["id"])
    assert (refused.code, "(item_not_failed)" in refused.stdout) == (1, True)
    assert run("item", "retry").code == "bad_option"

    assert run("item", "delete", broken["id"]).code == "confirmation_required"
    question = "Delete “broken.md” with everything below? This can't be undone. [y/N] "
    declined = run_in_terminal(env, "item", "delete", broken["id"], prompt=question, keys="n\n")
    assert (declined.code, "Nothing was deleted." in declined.text) == (1, True)
    assert run("item", "delete", broken["id"], "--yes").stdout == "Deleted “broken.md”.\n"
    assert run("item", "show", broken["id"]).code == "item_not_found"


def test_a_pipe_gets_the_whole_text_of_an_item(run: RunCommand) -> None:
    text = "[bold]\n" + "a long line of a text, " * 30 + "\n\n    indented, with\ta tab"
    run("add", "notes", "--note", text, "--wait")
    (item,) = items_of(run)
    assert run("item", "show", item["id"], "--content", COLUMNS="40").stdout == f"{text}\n"
    result = json.loads(run("item", "show", item["id"], "--content", "--json").stdout)
    assert result == {"id": item["id"], "content": text}
    hits = run("search", "notes", "long", COLUMNS="40").stdout
    assert "   " + "a long line of a text, " * 30 + "\n" in hits
    assert "       indented, with\ta tab\n" in hits
    assert not set("\x1b│┃╭─") & set(hits)


def test_search_has_modes_filters_and_explanations(run: RunCommand, folder: Path) -> None:
    hits = json.loads(
        run("search", "notes", "turns", "--mode", "text", "--filter", "type=note", "--json").stdout
    )["hits"]
    assert [(hit["title"], hit["ranks"]["vector"]) for hit in hits] == [("A wheel.", None)]
    assert run("search", "notes", "turns", "--filter", "year>=2020").stdout == "No hits in notes.\n"
    assert run("search", "notes", "turns", "--filter", "oops").code == "bad_option"
    assert run("search", "notes", "turns", "--mode", "best").code == "invalid_request"
    explained = run("search", "notes", "turns", "--mode", "text", "--explain").stdout
    assert "by meaning: not found; by keyword: rank 1, score " in explained
    assert "; words: turn ×1" in explained
    assert all(
        line == line.rstrip() for line in explained.splitlines()
    )  # a pipe is not as wide as a terminal


def test_why_not_says_the_reasons(run: RunCommand, folder: Path) -> None:
    (note,) = items_of(run, "--type", "note")
    missing = run("why-not", note["id"], "spring", "--mode", "text", "--filter", "type=file").stdout
    assert missing.startswith("“A wheel.” is not among the first 100 hits.\n")
    assert "The filter types excludes it. (filter)" in missing
    assert run("why-not", note["id"], "wheel").stdout.startswith("“A wheel.” is number 1 among the hits.\n")
    assert "reasons" in json.loads(run("why-not", note["id"], "wheel", "--json").stdout)


def test_events_are_shown_in_order_and_filtered(run: RunCommand, env: dict[str, str], folder: Path) -> None:
    events = json.loads(run("events", "notes", "--limit", "500", "--json").stdout)
    ids = [int(event["id"]) for event in events]
    assert (ids, events[0]["type"]) == (sorted(ids), "BaseCreated")
    after = json.loads(run("events", "notes", "--after", events[3]["id"], "--json").stdout)
    assert [event["id"] for event in after] == [event["id"] for event in events[4:]]
    (failure,) = json.loads(run("events", "notes", "--type", "ItemFailed", "--json").stdout)
    line = run("events", "notes", "--type", "ItemFailed", COLUMNS="40").stdout
    assert f"message: {failure['data']['message']}" in line
    assert "  ItemFailed  broken.md  " in line
    assert run("events", "--type", "Oops").code == "event_unknown"
    followed = run_in_terminal(env, "events", "--follow", prompt="AllDocumentsIngested", keys="\x03")
    assert followed.code == 130
    assert run("events", "nowhere").code == "base_not_found"


def test_the_queue_shows_what_waits(run: RunCommand) -> None:
    assert run("queue").stdout == "Nothing waits, and nothing is being worked on.\n"
    run("add", "notes", "--note", "A wheel.")
    assert run("queue").stdout.splitlines()[1].split()[:4] == ["notes", "base", "0", "1"]
    assert json.loads(run("queue", "--json").stdout)["waiting"] == 1
    assert json.loads(run("queue", "notes", "--json").stdout)["queueSize"] == 1
    assert "queueSize" in run("queue", "notes").stdout


def test_a_base_is_shown_with_the_names_of_the_api(run: RunCommand) -> None:
    run("base", "create", "notes")
    assert json.loads(run("base", "show", "notes", "--json").stdout)["name"] == "notes"
    assert "embedder " in run("base", "show", "notes").stdout
    assert run("base", "show", "nowhere").code == "base_not_found"
