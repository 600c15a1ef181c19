"""Commands import no more than they need: most of their time is imports."""

import asyncio
import gc
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from gristmill import app
from gristmill.cli import serve_lock
from gristmill.cli.imports import pause_garbage_collector
from tests.api_calls import make_base
from tests.serve_api import serve_api

_WITHOUT_SERVER = {
    "fastapi",
    "uvicorn",
    "starlette",
    "mcp",
    "numpy",
    "dulwich",
    "lxml",
    "onnxruntime",
    "tokenizers",
}
_WITHOUT_DATABASE = _WITHOUT_SERVER | {"psycopg"}


def imported_packages(env: dict[str, str], *words: str) -> set[str]:
    """The packages that a command imports; it must succeed."""
    result = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "gristmill", *words],
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr[-2000:]
    modules = [
        line.rpartition("|")[2].strip()
        for line in result.stderr.splitlines()
        if line.startswith("import time:")
    ]
    assert "gristmill.cli.commands" in modules
    return {module.partition(".")[0] for module in modules}


@pytest.mark.parametrize("words", [("--help",), ("--version",), ("search", "--help")], ids=" ".join)
def test_help_imports_no_server_and_no_database(env: dict[str, str], words: tuple[str, ...]) -> None:
    assert not imported_packages(env, *words) & _WITHOUT_DATABASE


def test_keys_are_listed_without_importing_the_server(env: dict[str, str]) -> None:
    assert not imported_packages(env, "keys", "list") & _WITHOUT_SERVER


async def test_a_command_of_a_running_server_imports_only_its_client(
    env: dict[str, str], data_dir: Path, mill: app.Gristmill, http: httpx.AsyncClient
) -> None:
    await make_base(http, "docs")
    with serve_lock.acquire(data_dir) as lock:
        async with serve_api(mill) as url:
            lock.announce_url(url)
            for words in (("base", "list"), ("search", "docs", "text")):
                packages = await asyncio.to_thread(imported_packages, env, *words)
                assert "httpx" in packages
                assert not packages & _WITHOUT_DATABASE


def test_imports_are_collected_neither_meanwhile_nor_later() -> None:
    before = gc.get_stats()[0]["collections"]
    with pause_garbage_collector():
        imported: list[list[int]] = [[] for _ in range(100_000)]
        assert gc.get_stats()[0]["collections"] == before
    assert gc.isenabled()
    assert gc.get_freeze_count() >= len(imported)
