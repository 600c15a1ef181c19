"""`gristmill index move` and `rebuild`, and what they say where it can't be done."""

import json
from typing import Any

import psycopg
import pytest

from gristmill.search.lexer import LEXER_VERSION
from tests.cli.conftest import RunCommand

pytestmark = pytest.mark.slow

ENGINE = "http://user:secret@127.0.0.1:9, http://127.0.0.1:10/"  # nothing listens there


def index_of(run: RunCommand, database_url: str) -> tuple[Any, ...]:
    """Which index of the only base answers, and which one is being filled."""
    with psycopg.connect(database_url) as connection:
        row = connection.execute("select index_kind, index_fill from base").fetchone()
    assert row is not None
    return row


def test_a_base_moves_only_to_an_address_of_the_settings(run: RunCommand, database_url: str) -> None:
    """One that only this command knows would be unknown to every server and worker."""
    run("base", "create", "notes")
    assert run("index", "move", "notes", "--to", "http://127.0.0.1:9").code == "index_not_configured"
    assert run("index", "move", "notes", "--to", "opensearch").code == "index_not_configured"
    elsewhere = run("index", "move", "notes", "--to", "http://127.0.0.1:11", GRISTMILL_INDEX_URL=ENGINE)
    assert elsewhere.code == "index_not_configured"
    assert run("index", "move", "notes", "--to", "nowhere").code == "invalid_request"
    assert run("index", "move", "absent", "--to", "embedded").code == "base_not_found"
    assert run("index", "move", "notes", "--to", "embedded").code == "index_unchanged"
    assert index_of(run, database_url) == ("embedded", None)


@pytest.mark.parametrize("place", ["http://127.0.0.1:9", "http://127.0.0.1:10", "opensearch"])
def test_a_move_is_queued_and_a_second_one_refused(run: RunCommand, database_url: str, place: str) -> None:
    """The address is given without the credentials that the settings have."""
    run("base", "create", "notes")
    moved = run("index", "move", "notes", "--to", place, GRISTMILL_INDEX_URL=ENGINE)
    assert moved.stdout.startswith("Moving notes to the search engine.")
    assert index_of(run, database_url) == ("embedded", "opensearch")
    (shown,) = json.loads(run("index", "status", "--json").stdout)
    assert (shown["name"], shown["index"], shown["movingTo"]) == ("notes", "embedded", "opensearch")
    assert run("index", "status", "notes").stdout.split()[-3:] == ["notes", "embedded", "opensearch"]
    for words in (("move", "notes", "--to", "embedded"), ("rebuild", "notes")):
        assert run("index", *words, GRISTMILL_INDEX_URL=ENGINE).code == "index_moving"


def test_an_embedded_index_is_rebuilt_by_compaction(run: RunCommand, database_url: str) -> None:
    run("add", "notes", "--note", "a water wheel", "--wait")
    result = json.loads(run("index", "rebuild", "notes", "--json").stdout)
    with psycopg.connect(database_url) as connection:
        kind = connection.execute("select kind from job where id = %s", [result["jobId"]]).fetchone()
    assert kind == ("tidy_base",)
    assert "a water wheel" in run("search", "notes", "wheel").stdout
    run("add", "notes", "--note", "another note", "--wait")  # the command works on the queue meanwhile
    with psycopg.connect(database_url) as connection:
        versions = connection.execute("select distinct lexer_version from segment").fetchall()
    assert versions == [(LEXER_VERSION,)]


def test_doctor_checks_the_search_engine(run: RunCommand) -> None:
    """Only if there is one; with what is wrong, and without its credentials."""
    assert "index" not in {check["what"] for check in json.loads(run("doctor", "--json").stdout)}
    checks = json.loads(run("doctor", "--json", GRISTMILL_INDEX_URL=ENGINE).stdout)
    (check,) = [check for check in checks if check["what"] == "index"]
    assert not check["ok"]
    assert "No node of the search engine can be reached" in json.dumps(check)
    assert "secret" not in json.dumps(checks)
