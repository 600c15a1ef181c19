"""`gristmill base embedder`."""

import json

import pytest

from tests.cli.conftest import RunCommand

pytestmark = pytest.mark.slow


def test_an_embedder_is_changed_shown_and_changed_back(run: RunCommand) -> None:
    """Without a server, the command does the work itself."""
    run("add", "notes", "--note", "a water wheel", "--wait")
    assert run("base", "embedder", "notes").code == "swap_not_found"
    changed = run("base", "embedder", "notes", "use-multilingual", "--gate", "off", "--wait")
    assert changed.stdout == "The base has the embedder use-multilingual.\n"
    assert "a water wheel" in run("search", "notes", "wheel").stdout
    shown = json.loads(run("base", "embedder", "notes", "--json").stdout)
    assert (shown["state"], shown["canRevert"]) == ("switched", True)
    assert "granite-30m-en" in run("base", "embedder", "notes", "--revert").stdout
    assert run("base", "embedder", "notes", "--cancel").code == "swap_ended"
    assert run("base", "embedder", "notes", "use-multilingual", "--revert").code == "invalid_request"
