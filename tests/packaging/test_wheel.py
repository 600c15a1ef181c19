"""The wheel can be built, installed into an empty environment from the package index, and run."""

import re
import shutil
import subprocess
import tempfile
import tomllib
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.gristmill_process import environment

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("uv") is None, reason="uv builds and installs it"),
]


def run(*words: str, env: dict[str, str] | None = None) -> str:
    process = subprocess.run(words, capture_output=True, text=True, timeout=240, env=env, cwd="/")
    assert process.returncode == 0, process.stderr[-3000:]
    return process.stdout


@pytest.fixture
def folder() -> Generator[Path]:
    """A folder readable by all users: when the tests run as root, PostgreSQL runs as another user from it."""
    with tempfile.TemporaryDirectory(prefix="gristmill-wheel-") as path:
        Path(path).chmod(0o755)
        yield Path(path)


def test_the_wheel_installs_into_an_empty_environment_and_serves(
    data_dir: Path, cache_dir: Path, folder: Path
) -> None:
    run("uv", "build", "-q", "--wheel", "-o", str(folder), str(ROOT))
    (wheel,) = folder.glob("*.whl")
    place = folder / "venv"
    run("uv", "venv", "-q", "--python", "3.11", str(place))
    pins = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["uv"]["constraint-dependencies"]
    (folder / "pins").write_text("\n".join(pins))
    python = str(place / "bin" / "python")
    run("uv", "pip", "install", "-q", "--python", python, "-c", str(folder / "pins"), str(wheel))
    gristmill = str(place / "bin" / "gristmill")
    env = environment(data_dir, cache_dir, port="0") | {"PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
    assert re.fullmatch(r"gristmill \d+\.\d+\.\d+\n", run(gristmill, "--version", env=env))
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(
            [gristmill, "serve"], env=env, stdout=subprocess.PIPE, stderr=log, text=True
        )
    assert server.stdout is not None
    with server.stdout:
        try:
            assert "ready at http://" in server.stdout.readline(), (folder / "log").read_text()
            note = "The miller dresses both stones every spring."
            assert "1 of 1 searchable" in run(gristmill, "add", "notes", "--note", note, "--wait", env=env)
            assert note in run(gristmill, "search", "notes", "sharpen a millstone", env=env)
        finally:
            server.terminate()
            assert server.wait(120) == 0
