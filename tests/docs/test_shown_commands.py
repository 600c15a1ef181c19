"""Every command that a page shows is run here or in `test_readme.py`, or is on the list below with the reason why not.

What is not run is looked at as far as it goes: a `gristmill` command is taken apart by the command itself, and files exist.
"""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
import typer.main

from gristmill.cli.commands import cli
from tests.docs.pages import ROOT, blocks, pages
from tests.embedding import endpoint
from tests.gristmill_process import environment, run_command, run_serve

pytestmark = pytest.mark.slow

# The beginnings of commands that are not run.
NOT_RUN = {
    "pip install uv": "sets the machine up; CI begins with it",
    "./check": "runs this very suite",
    "rm -f uv.lock": "resolves every package again",
    "uv run python -m bench.": "takes minutes, and wants a folder to measure with",
    "uv run --group bench": "takes minutes, and the packages of others",
    "uv run --group dev python -m bench.": "takes minutes",
    "mkdir calls && RECORD_CALLS": "runs a part of this very suite",
    "gristmill connector add": "speaks to a service of others",
    "gristmill sync work": "speaks to a service of others",
    "gristmill keys create": "changes the machine",
    "gristmill worker": "never ends",
    "GRISTMILL_WORKER_PROCESSES=2 gristmill serve": "never ends",
    "curl -s localhost:7373/api/search": "needs a server on the default port",
    "python3 -m venv /opt": "changes the machine",
    "useradd": "changes the machine",
    "cp deploy/": "changes the machine",
    "systemctl": "changes the machine",
    'echo "': "changes the checkout",
    "kubectl": "there is no cluster where the tests run",
    "docker compose": "there is no container engine where the tests run",
}
RUN = (
    "curl -F files=@stones.md",
    "gristmill --install-completion",
    "gristmill connector new sample",  # in tests/connectors/test_plugins.py
    "gristmill connector push work",  # in tests/connectors/test_sync.py
    "gristmill connector sign-in",  # its requests by tests/connectors/test_mail_sign_in.py
    "gristmill connector change",  # in tests/cli/test_connectors.py
    "gristmill embedder ",
    "gristmill mcp install",
    "gristmill base create notes --embedder",
    "gristmill add handbook ~/handbook --every",  # these four by tests/cli/test_freshness.py
    "gristmill base refresh",
    "gristmill base exclusions",
    "gristmill item refresh",
    "gristmill base retention",  # these four by tests/cli/test_retention.py
    "gristmill base hold",
    "gristmill base lift",
    "gristmill deletions",
    "gristmill limit ",  # these by tests/cli/test_usage.py
    "gristmill add handbook https://example.org/docs/ --crawl",  # its request by tests/cli/test_crawl_option.py
    "gristmill add handbook https://app.example.org/docs/ --crawl",  # as above
    "gristmill add handbook ~/handbook --dry-run",
    "gristmill reindex handbook --dry-run",
    "gristmill base embedder handbook use-multilingual --dry-run",
    "gristmill user create",  # by tests/server/test_users.py
    "gristmill secrets rotate",  # by tests/crash/test_kill_rotation.py
)


def shown_commands() -> list[str]:
    """Every command of a shell block, lines that go on put together. The README's console is run by `test_readme.py`."""
    lines: list[str] = []
    for page in pages():
        for block in blocks(page.read_text(encoding="utf-8")):
            if block.language in ("sh", "bash", "shell"):
                lines += [line for line in block.text.replace("\\\n", " ").splitlines() if line.strip()]
            elif block.language == "console":
                assert page.name in ("README.md", "first-base.md"), f"{page}: no test runs this console"
    return lines


def test_every_command_is_run_or_has_a_reason_not_to() -> None:
    lines = shown_commands()
    assert len(lines) > 20
    for line in lines:
        assert line.startswith((*NOT_RUN, *RUN)), line
    for beginning in (*NOT_RUN, *RUN):
        assert any(line.startswith(beginning) for line in lines), f"no page shows {beginning}"
    assert len(NOT_RUN) <= 21


@pytest.mark.parametrize("line", [line for line in shown_commands() if "gristmill " in line])
def test_the_command_takes_what_is_shown(line: str) -> None:
    words = shlex.split(line)
    place = next((n for n, word in enumerate(words) if word.rpartition("/")[2] == "gristmill"), None)
    if place is None or words[place - 1 : place] == ["install"] or words[place + 1 :] == []:
        return  # the package or the user of that name
    command = cast(Any, typer.main.get_command(cli))
    arguments = words[place + 1 :]
    while arguments and hasattr(command, "commands") and arguments[0] in command.commands:
        command, arguments = command.commands[arguments[0]], arguments[1:]
    if not arguments or not arguments[0].endswith("-completion"):
        command.make_context("gristmill", arguments).close()


def test_what_is_not_run_names_files_that_are_there() -> None:
    for line in shown_commands():
        for module in re.findall(r"-m (bench\.\w+)", line):
            place = ROOT / module.replace(".", "/")
            assert place.is_dir() or place.with_suffix(".py").is_file(), line
        for path in re.findall(r"(?<![\w/])(?:bench|deploy|tests)/[\w@./-]+", line):
            assert (ROOT / path).exists() or path == "deploy/.env", line


def test_uploads_by_curl_are_taken(
    database_url: str, data_dir: Path, cache_dir: Path, quick_embedder: dict[str, str], tmp_path: Path
) -> None:
    curl = shutil.which("curl")
    if curl is None:
        pytest.skip("there is no curl here")
    (line,) = [line for line in shown_commands() if line.startswith("curl -F files=@stones.md")]
    (tmp_path / "stones.md").write_text("# Stones\n\nThey are dressed in spring.")
    (tmp_path / "grain.txt").write_text("Boats bring it on Tuesdays.")
    env = environment(data_dir, cache_dir, database_url=database_url, **quick_embedder)
    with run_serve(env, log=tmp_path / "log") as server, server.client() as client:
        base = client.post("/api/knowledge-bases", json={"name": "b"}).json()["id"]
        url = f"{server.url}/api/knowledge-bases/{base}/files"
        words = [url if word.startswith("http") else word for word in shlex.split(line)]
        process = subprocess.run(
            [curl, "-sS", *words[1:]], cwd=tmp_path, capture_output=True, text=True, timeout=60
        )
        assert '"stones.md"' in process.stdout, process.stdout + process.stderr
        assert '"failed":[]' in process.stdout


def test_the_commands_about_embedders_work(database_url: str, data_dir: Path, cache_dir: Path) -> None:
    """In the order of the page, with the endpoint of the test."""
    beginnings = ("gristmill embedder ", "gristmill base create notes --embedder")
    lines = [line for line in shown_commands() if line.startswith(beginnings)]
    assert len(lines) >= 4
    env = environment(data_dir, cache_dir, database_url=database_url) | {"NEW_KEY": "sk-new"}
    with endpoint.serve() as running:
        for line in lines:
            words = [running.url if word.startswith("http") else word for word in shlex.split(line)[1:]]
            process = run_command(env, *words)
            assert process.returncode == 0, (line, process.stderr)
        prefix = "search_query: "
        assert all(request.body["input"][0].startswith(prefix) for request in running.requests[1:])


@pytest.mark.parametrize(
    "line", [line for line in shown_commands() if line.startswith("gristmill mcp install")]
)
def test_agents_are_configured_as_shown(line: str, data_dir: Path, cache_dir: Path, tmp_path: Path) -> None:
    env = {**environment(data_dir, cache_dir), "HOME": str(tmp_path)}
    arguments = shlex.split(line)[1:]
    process = run_command(env, *arguments)
    assert process.returncode == 0, process.stderr
    text = (tmp_path / ".cursor" / "mcp.json").read_text() if "--write" in arguments else process.stdout
    assert "/mcp" in text


def test_completion_is_installed_where_the_shell_looks(tmp_path: Path) -> None:
    gristmill = Path(sys.executable).with_name("gristmill")
    process = subprocess.run(
        ["bash", "-c", f"{gristmill} --install-completion; true"],
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "installed" in process.stdout, process.stderr
    assert "gristmill" in (tmp_path / ".bashrc").read_text()
