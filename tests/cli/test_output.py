"""What commands print: whole lines into a pipe, wrapped ones in a terminal; JSON with the names of the API."""

import json

import psycopg
import pytest

from tests.cli.conftest import RunCommand
from tests.terminal import run_in_terminal

pytestmark = pytest.mark.slow

WORDS = [f"word{number}" for number in range(120)]  # about 900 characters in one line


def test_search_prints_the_whole_text_into_a_pipe_and_wraps_it_in_a_terminal(
    env: dict[str, str], run: RunCommand
) -> None:
    assert run("add", "a [b]", "--note", " ".join(WORDS), "--wait").code == 0
    piped_result = run("search", "a [b]", "word0", COLUMNS="60")
    assert f"   {' '.join(WORDS)}\n" in piped_result.stdout
    terminal = run_in_terminal(env, "search", "a [b]", "word0", columns=60, program=("-m", "gristmill"))
    assert terminal.code == 0
    assert max(len(line) for line in terminal.lines) <= 60
    excerpt = " ".join(line.strip() for line in terminal.lines)
    assert " ".join(WORDS[:50]) in excerpt
    none = run("base", "create", "[empty]")
    assert none.stdout == "Created [empty].\n"
    assert run("search", "[empty]", "word0").stdout == "No hits in [empty].\n"
    changed_result = run("search", "a [b]", '"word1 word0"', COLUMNS="60")
    assert changed_result.stdout.startswith("Nothing contains “word1 word0”. Searched for its words.\n1. ")


def test_tables_are_not_cut_in_a_pipe(run: RunCommand) -> None:
    name = "a long name of a base " * 5
    run("base", "create", name.strip())
    for command in (("status",), ("base", "list")):
        output = run(*command, COLUMNS="40")
        assert name.strip() in output.stdout


def test_keys_and_the_audit_log_have_the_names_of_the_api(run: RunCommand) -> None:
    assert run("keys", "list").stdout.startswith("No keys yet.")
    created = json.loads(run("keys", "create", "ann", "--email", "ann@example.com", "--json").stdout)
    (key,) = json.loads(run("keys", "list", "--json").stdout)
    fields = {
        "id",
        "name",
        "prefix",
        "role",
        "principal",
        "userId",
        "expiresAt",
        "lastUsedAt",
        "createdAt",
        "updatedAt",
    }
    assert set(key) == {*fields, "organisation"}
    assert key["principal"] == {"email": "ann@example.com", "teams": [], "groups": []}
    assert {**key, "key": created["key"]} == created
    (entry,) = json.loads(run("audit", "--json").stdout)
    assert set(entry) == {
        "id", "at", "action", "actor", "keyId", "role", "method", "path", "client", "status", "tookMs",
    }  # fmt: skip


def test_doctor_names_the_guarantees(run: RunCommand) -> None:
    results = json.loads(run("doctor", "--json").stdout)
    assert [result["what"] for result in results][-1] == "guarantees"


# The database is opened only after the message was printed.
_SLOW_DATABASE = """
import asyncio, contextlib, threading
from gristmill import app
from gristmill.cli import main, open_gristmill, output
printed, print_message, open_app = threading.Event(), output.err.print, app.gristmill
def print_and_go_on(text):
    print_message(text)
    printed.set()
@contextlib.asynccontextmanager
async def open_slowly(*arguments, **options):
    await asyncio.to_thread(printed.wait)
    async with open_app(*arguments, **options) as mill:
        yield mill
open_gristmill._MOMENT, output.err.print, app.gristmill = 0, print_and_go_on, open_slowly
main()
"""


def test_a_terminal_shows_that_the_database_is_being_opened_and_a_pipe_does_not(
    env: dict[str, str], run: RunCommand
) -> None:
    output = run_in_terminal(env, "status", program=("-c", _SLOW_DATABASE))
    assert output.lines[0] == "Connecting to the database …"
    assert output.lines[1].startswith("No knowledge bases yet.")
    assert run("status").stdout.startswith("No knowledge bases yet.")


def test_status_says_why_an_item_waits(run: RunCommand, database_url: str) -> None:
    """S4-46."""
    assert run("add", "grain", "--note", "Rye.").code == 0
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("update lane set paused = true")
    output = run("status").stdout
    assert "grain: Rye. waits: The queue of this base is paused. Resume it to go on." in output
    (base,) = json.loads(run("status", "--json").stdout)
    assert [item["waitingFor"]["code"] for item in base["waiting"]] == ["paused"]
