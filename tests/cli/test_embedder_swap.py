"""`gristmill base embedder`."""

import json

import pytest

from tests.cli.conftest import RunCommand

pytestmark = pytest.mark.slow


def test_an_embedder_is_changed_shown_and_changed_back(run: RunCommand) -> None:
    """Without a server, the command does the work itself."""
    added = run(
        "add", "notes", "--note", "a water wheel", "--note", "磨坊主每年春天都要重新凿刻两扇石磨。", "--wait"
    )
    assert "`gristmill base embedder notes use-multilingual`" in added.stdout, "Chinese is not what it knows"
    assert run("base", "embedder", "notes").code == "swap_not_found"
    changed = run("base", "embedder", "notes", "use-multilingual", "--gate", "off", "--wait")
    assert changed.stdout == "The base has the embedder use-multilingual.\n"
    assert "a water wheel" in run("search", "notes", "wheel").stdout
    shown = json.loads(run("base", "embedder", "notes", "--json").stdout)
    assert (shown["state"], shown["canRevert"]) == ("switched", True)
    assert "granite-30m-en" in run("base", "embedder", "notes", "--revert").stdout
    assert run("base", "embedder", "notes", "--cancel").code == "swap_ended"
    assert run("base", "embedder", "notes", "use-multilingual", "--revert").code == "invalid_request"


def test_questions_are_kept_shown_and_deleted(run: RunCommand) -> None:
    """`gristmill base questions`, off by default; and the default embedder of new bases."""
    assert run("embedder", "default", "use-multilingual").stdout == "New bases get use-multilingual.\n"
    run("base", "create", "notes")
    assert json.loads(run("base", "show", "notes", "--json").stdout)["embedder"] == "use-multilingual"
    assert "not kept" in run("base", "questions", "notes").stdout
    run("base", "questions", "notes", "--keep")
    run("search", "notes", "who sharpens the stones")
    shown = json.loads(run("base", "questions", "notes", "--json").stdout)
    assert [(asked["question"], asked["times"]) for asked in shown["items"]] == [
        ("who sharpens the stones", 1)
    ]
    assert run("base", "questions", "notes", "--delete").stdout == "Deleted 1 question.\n"
    assert run("base", "questions", "notes", "--keep", "--off").code == "invalid_request"
