"""The commands as a person runs them: real processes, a local PostgreSQL, the default embedder."""

import contextlib
import json
import signal
from pathlib import Path

import psutil
import pytest

from tests.command_line import invoke
from tests.gristmill_process import environment, run_command, run_serve

pytestmark = pytest.mark.slow


@pytest.fixture
def env(data_dir: Path, cache_dir: Path) -> dict[str, str]:
    return environment(data_dir, cache_dir)


@pytest.fixture
def environment_on_shared_server(
    data_dir: Path, cache_dir: Path, database_url: str, quick_embedder: dict[str, str]
) -> dict[str, str]:
    """An environment on the shared test server, for tests that need neither the local PostgreSQL nor the default
    embedder."""
    return environment(data_dir, cache_dir, database_url=database_url, **quick_embedder)


def postgres_pids(data_dir: Path) -> list[int]:
    pids: list[int] = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.name() == "postgres" and any(str(data_dir) in part for part in process.cmdline()):
                pids.append(process.pid)
    return pids


def test_a_note_is_added_and_found_without_a_server_and_nothing_is_left_running(
    env: dict[str, str], tmp_path: Path, data_dir: Path
) -> None:
    """With interpreters of their own, as a shell starts them."""
    note = "The miller keeps the wheel turning through the night."
    add_result = run_command(env, "add", "notes", "--note", note, "--wait", fork=False)
    assert add_result.returncode == 0, add_result.stderr
    assert "1 of 1 searchable in notes." in add_result.stdout
    search_result = run_command(env, "search", "notes", "who works while others sleep?", "--json", fork=False)
    assert search_result.returncode == 0, search_result.stderr
    assert json.loads(search_result.stdout)["hits"][0]["text"] == note
    assert "notes" in run_command(env, "status", fork=False).stdout
    assert postgres_pids(data_dir) == []


def test_commands_use_the_server_when_one_runs(env: dict[str, str], tmp_path: Path, data_dir: Path) -> None:
    (tmp_path / "wheat.md").write_text("# Wheat\n\nWheat is ground into flour between two stones.")
    with run_serve(env, log=tmp_path / "log") as server:
        add_result = run_command(env, "add", "grain", str(tmp_path / "wheat.md"), "--wait")
        assert add_result.returncode == 0, add_result.stderr
        search_result = run_command(env, "search", "grain", "flour")
        assert "wheat.md" in search_result.stdout
        assert "Wheat is ground" in search_result.stdout
        doctor = run_command(env, "doctor")
        assert doctor.returncode == 0, doctor.stdout + doctor.stderr
        assert f"running at {server.url}" in doctor.stdout
        second = run_command(env, "serve", "--port", "0")
        assert second.returncode == 2
        assert "already in use by a server" in second.stderr
        assert server.stop(signal.SIGINT) == 0
    assert postgres_pids(data_dir) == []


def test_errors_are_one_line_and_an_exit_code(
    environment_on_shared_server: dict[str, str], tmp_path: Path
) -> None:
    for arguments, exit_code, message in [
        (["search", "nowhere", "x"], 1, "no knowledge base named 'nowhere'"),
        (["add", "notes"], 1, "Nothing to add"),
        (["add", "notes", str(tmp_path / "gone.md")], 1, "does not exist"),
        (["serve", "--host", "0.0.0.0"], 2, "not a loopback address"),
        (["serve", "--data-dir", "/dev/null/x"], 2, "is not writable"),
        (["add", "notes", "ftp://example.com/a"], 1, "not an http or https address"),
    ]:
        run = run_command(environment_on_shared_server, *arguments)
        assert run.returncode == exit_code, (arguments, run.stdout, run.stderr)
        assert message in run.stdout + run.stderr
        assert "Traceback" not in run.stderr
    misspelt = run_command({**environment_on_shared_server, "GRISTMILL_PROT": "1"}, "status")
    assert (misspelt.returncode, "GRISTMILL_PORT" in misspelt.stderr) == (2, True)


def test_a_file_that_cannot_be_read_fails_the_add(
    environment_on_shared_server: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "picture.md").write_bytes(b"\0\0\0")
    run = run_command(environment_on_shared_server, "add", "notes", str(tmp_path / "picture.md"), "--wait")
    assert run.returncode == 1
    assert "unsupported_type" in run.stdout


def test_serve_reports_a_port_that_is_taken(
    environment_on_shared_server: dict[str, str], tmp_path: Path
) -> None:
    env = environment_on_shared_server
    with run_serve(env, log=tmp_path / "log") as server:
        port = server.url.rpartition(":")[2]
        other = {**env, "GRISTMILL_DATA_DIR": str(tmp_path / "other")}
        second_server = run_command(other, "serve", "--port", port)
        assert (second_server.returncode, "is not available" in second_server.stderr) == (2, True)
        server.stop()


def test_help_is_there_for_every_command() -> None:
    top = invoke(["--help"])
    assert top.exit_code == 0
    for name in ("serve", "worker", "add", "search", "status", "doctor"):
        assert name in top.stdout
        assert invoke([name, "--help"]).exit_code == 0
