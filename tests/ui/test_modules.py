"""The pages' modules, held against their types, the linter and their own tests; offline, by deno."""

import subprocess
from pathlib import Path

import deno
import pytest

ROOT = Path(__file__).parents[2]
MODULES = "src/gristmill/doors/ui/static/js"


@pytest.mark.parametrize(
    "arguments",
    [
        ["lint", MODULES, "tests/ui"],
        ["check", MODULES],
        ["test", "--no-remote", "--allow-read=src", "tests/ui"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_the_modules_are_sound(arguments: list[str], tmp_path: Path) -> None:
    done = subprocess.run(
        [deno.find_deno_bin(), *arguments],
        cwd=ROOT,
        env={"DENO_DIR": str(tmp_path), "NO_COLOR": "1", "DENO_NO_UPDATE_CHECK": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
