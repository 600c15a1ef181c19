"""Files, folders and terminals that can't be used as they are: one line says so, without a traceback."""

import os
from pathlib import Path

import pytest

from gristmill.cli import serve_lock
from gristmill.errors import SetupError
from tests.cli.conftest import RunCommand
from tests.gristmill_process import run_command

pytestmark = pytest.mark.slow


def test_paths_that_cannot_be_looked_at_are_reported_each_by_itself(
    env: dict[str, str], tmp_path: Path
) -> None:
    """A home of nobody, a name that is not UTF-8, and one good path, which is added all the same."""
    (tmp_path / "wheat.md").write_text("Wheat.")
    latin = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.md")
    Path(latin).write_text("Coffee.")
    added = run_command(env, "add", "new", "~no-such-user/rye.md", latin, str(tmp_path / "wheat.md"))
    assert added.returncode == 1
    assert "caf\\xe9.md: Its name is not UTF-8" in added.stdout
    assert added.stdout.count("(source_gone)") == 1
    assert "1 accepted in new." in added.stdout
    assert "Traceback" not in added.stderr
    only = run_command(env, "add", "other", latin)
    assert "The base other was not created." in only.stdout
    note = run_command(env, "add", "new", "--note", os.fsdecode(b"caf\xe9"))
    assert (note.returncode, note.stderr.count("\n")) == (1, 1)


def test_a_file_that_cannot_be_written_is_reported(env: dict[str, str]) -> None:
    bundle = run_command(
        {**env, "GRISTMILL_DATABASE_URL": "postgresql://127.0.0.1:1/x"}, "support-bundle", "/no/x"
    )
    assert bundle.returncode == 1
    assert bundle.stderr.startswith("gristmill: /no/x can't be used: No such file or directory.")
    assert "Traceback" not in bundle.stderr


def test_a_terminal_that_lacks_letters_shows_them_as_escapes(env: dict[str, str], run: RunCommand) -> None:
    assert run("base", "create", "手册").code == 0
    listed = run_command({**env, "PYTHONIOENCODING": "latin-1"}, "base", "list", fork=False)
    assert listed.returncode == 0, listed.stderr
    assert "\\u624b\\u518c" in listed.stdout


def test_a_lock_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "serve.lock").symlink_to("/dev/full")
    with pytest.raises(SetupError) as refusal, serve_lock.acquire(tmp_path):
        pass
    assert refusal.value.code == "data_dir_not_writable"
