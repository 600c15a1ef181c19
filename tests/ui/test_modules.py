"""The JavaScript modules: formatting, lint, types and unit tests, checked offline by deno."""

import subprocess
from pathlib import Path

import deno
import pytest

ROOT = Path(__file__).parents[2]
MODULES = "src/gristmill/server/ui/static/js"
LINE_LIMIT = 120  # deno fmt does not break long strings and templates


@pytest.mark.parametrize(
    "arguments",
    [
        ["fmt", "--check"],
        ["lint", MODULES, "tests/ui", "clients"],
        ["check", MODULES],
        ["test", "--no-remote", "--allow-read=src", "tests/ui"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_deno_accepts_the_modules(arguments: list[str], cache_dir: Path) -> None:
    """With a folder of its own that outlives the run: deno keeps in it what it has compiled, by its hash."""
    result = subprocess.run(
        [deno.find_deno_bin(), *arguments],
        cwd=ROOT,
        env={"DENO_DIR": str(cache_dir / "deno"), "NO_COLOR": "1", "DENO_NO_UPDATE_CHECK": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_no_line_is_longer_than_the_limit() -> None:
    too_long = [
        f"{path.relative_to(ROOT)}:{number}"
        for folder in (MODULES, "tests/ui")
        for path in sorted((ROOT / folder).rglob("*.js"))
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if len(line) > LINE_LIMIT
    ]
    assert too_long == []
