"""`gristmill embedder …`: stored, shown, tested, changed and removed; the key is never an argument and never printed."""

import json
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.cli.conftest import RunCommand
from tests.embedding.endpoint import Endpoint, serve
from tests.terminal import run_in_terminal

pytestmark = pytest.mark.slow

KEY = "sk-the-key-of-the-endpoint"


@pytest.fixture
def endpoint() -> Generator[Endpoint]:
    with serve() as running:
        yield running


def sent_keys(endpoint: Endpoint) -> list[str]:
    return [request.headers.get("Authorization", "") for request in endpoint.requests]


def test_an_embedder_is_stored_shown_tested_changed_and_removed(run: RunCommand, endpoint: Endpoint) -> None:
    """With the key from the environment; a base uses it."""
    options = ("--url", endpoint.url, "--model", "hashed", "--key", "env:EXAMPLE_KEY")
    stored = run("embedder", "add", "quick", *options, "--language", "zh", "--price", "0.02", EXAMPLE_KEY=KEY)
    assert stored.stdout == "Stored quick: hashed, 64 dimensions.\n"
    assert sent_keys(endpoint) == [f"Bearer {KEY}"]
    lines = run("embedder", "list").stdout.splitlines()
    assert [line.split()[:3] for line in lines[1:4]] == [
        ["granite-30m-en", "*", "builtin"],
        ["quick", "stored", "hashed"],
        ["use-multilingual", "builtin", "512"],
    ]
    shown = run("embedder", "show", "quick").stdout
    details = dict(line.split(maxsplit=1) for line in shown.splitlines() if len(line.split()) == 2)
    assert (details["address"].strip(), details["languages"].strip()) == (endpoint.url, "chinese")
    assert details["key"].strip() == "stored"
    assert run("embedder", "test", "quick").stdout.startswith("quick works: 64 dimensions, ")
    changed = json.loads(
        run(
            *(
                "embedder",
                "change",
                "quick",
                "--concurrency",
                "2",
                "--requests-per-minute",
                "600",
                "--no-key",
            ),
            "--json",
        ).stdout
    )
    assert (changed["concurrency"], changed["requestsPerMinute"], changed["hasKey"]) == (2, 600, False)
    changed = json.loads(run("embedder", "change", "quick", "--requests-per-minute", "0", "--json").stdout)
    assert changed["requestsPerMinute"] is None

    assert run("base", "create", "notes", "--embedder", "quick").code == 0
    assert run("embedder", "remove", "quick").code == "embedder_in_use"
    assert run("embedder", "change", "quick", "--model", "other", "--dimensions", "64").code == (
        "embedder_vectors_in_use"
    )
    assert run("base", "delete", "notes", "--yes").code == 0
    assert run("embedder", "remove", "quick").stdout == "Removed quick.\n"
    assert run("embedder", "show", "quick").code == "embedder_not_found"
    assert run("embedder", "remove", "granite-30m-en").code == "embedder_not_stored"


def test_a_failed_test_ends_with_1(run: RunCommand, endpoint: Endpoint) -> None:
    run("embedder", "add", "quick", "--url", endpoint.url, "--model", "hashed")
    endpoint.always_respond(401, {"error": "no such key"})
    result = run("embedder", "test", "quick")
    assert result.code == 1
    assert "no such key" in result.stdout
    assert "(embedder_unauthorized)" in result.stdout
    result = run("embedder", "test", "quick", "--json")
    assert (result.code, json.loads(result.stdout)["ok"]) == (1, False)


def test_the_key_is_read_from_a_file_or_standard_input(
    run: RunCommand, env: dict[str, str], endpoint: Endpoint, tmp_path: Path
) -> None:
    (tmp_path / "key").write_text(KEY + "\n")
    options = ("--url", endpoint.url, "--model", "hashed")
    assert run("embedder", "add", "a", *options, "--key", f"@{tmp_path / 'key'}").code == 0
    assert sent_keys(endpoint) == [f"Bearer {KEY}"]
    words = [sys.executable, "-m", "gristmill", "embedder", "add", "b", *options, "--key", "-"]
    subprocess.run(words, env=env, input=f"{KEY}\n", text=True, check=True, timeout=120)
    assert sent_keys(endpoint) == [f"Bearer {KEY}"] * 2


def test_the_key_is_asked_for_in_a_terminal_and_not_shown(env: dict[str, str], endpoint: Endpoint) -> None:
    session = run_in_terminal(
        env,
        *("embedder", "add", "quick", "--url", endpoint.url, "--model", "hashed", "--key", "-"),
        prompt="API key: ",
        keys=f"{KEY}\n",
    )
    assert session.code == 0, session.text
    assert sent_keys(endpoint) == [f"Bearer {KEY}"]
    assert KEY not in session.text


@pytest.mark.parametrize(
    ("source", "code"),
    [
        (KEY, "key_on_command_line"),
        ("env:NO_SUCH_VARIABLE", "no_secret_variable"),
        ("@/no/such/file", "no_secret_file"),
        ("@/dev/null", "bad_option"),
    ],
)
def test_a_key_that_is_typed_missing_or_empty_is_refused(
    run: RunCommand, endpoint: Endpoint, source: str, code: str
) -> None:
    result = run("embedder", "add", "a", "--url", endpoint.url, "--model", "hashed", "--key", source)
    assert result.code == code
    assert KEY not in result.stdout
    assert endpoint.requests == []


def test_a_change_of_nothing_is_refused(run: RunCommand) -> None:
    assert run("embedder", "change", "quick").code == "bad_option"


def test_the_help_shows_examples(run: RunCommand) -> None:
    for command in ("add", "change"):
        assert f"  gristmill embedder {command} small " in run("embedder", command, "--help").stdout
