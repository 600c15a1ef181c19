"""Clients that are not part of the development environment: OpenAI's for Node, LiteLLM's for vector stores, and the chat models of
LangChain and LlamaIndex, also with the tool that searches vector stores.

The one for Node is installed from the npm registry where that can be reached. The others need an older OpenAI client than the one that is
tested here, so they run in a Python of their own; that takes 400 MB and half a minute, so only with FRAMEWORK_TESTS=1.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.answers.chat_endpoint import USAGE, ChatEndpoint, serve_chat
from tests.compat.openai_clients import sync_client
from tests.gristmill_process import environment, run_serve
from tests.node_packages import install_package, node, node_environment

pytestmark = pytest.mark.slow

NODE_CLIENT = "openai@7.53.0"
NODE_FRAMEWORKS = [
    "ai@7.0.170",
    "@ai-sdk/openai@4.0.115",
    "@langchain/openai@1.6.0",
    "@langchain/core@1.2.13",
]
FRAMEWORKS = ["litellm==1.106.2", "langchain-openai==1.7.3", "llama-index-llms-openai-like==0.8.1"]
FOLDER = Path(__file__).parent


@pytest.fixture
def chat() -> Generator[ChatEndpoint]:
    with serve_chat() as endpoint:
        yield endpoint


@pytest.fixture
def url(
    database_url: str,
    data_dir: Path,
    cache_dir: Path,
    tmp_path: Path,
    quick_embedder: dict[str, str],
    chat: ChatEndpoint,
) -> Generator[str]:
    models = {**quick_embedder, "chat_url": chat.url, "chat_model": "quern"}
    env = environment(data_dir, cache_dir, database_url=database_url, **models)
    with run_serve(env, log=tmp_path / "log") as server:
        yield server.url


def test_the_client_for_node_does_the_same(url: str, cache_dir: Path) -> None:
    script = install_package(cache_dir, NODE_CLIENT) / "openai_story.mjs"
    script.write_text((FOLDER / script.name).read_text())
    ended = subprocess.run(
        [node(), str(script), url], capture_output=True, text=True, env=node_environment(), check=False
    )
    assert (ended.returncode, ended.stdout.strip()) == (0, "ok"), ended.stderr


@pytest.fixture
def frameworks_python(cache_dir: Path) -> str:
    """A Python that has the frameworks, installed once on a machine."""
    if os.environ.get("FRAMEWORK_TESTS") != "1":
        pytest.skip("LiteLLM, LangChain and LlamaIndex are tested with FRAMEWORK_TESTS=1")
    folder, uv = cache_dir / "-".join(FRAMEWORKS), shutil.which("uv")
    if uv is None:
        pytest.skip("there is no uv to install the frameworks with")
    python = folder / "bin/python"
    if not (folder / "done").exists():
        # Not in the folder of this project: its pinned versions would apply.
        folder.parent.mkdir(parents=True, exist_ok=True)
        install = [uv, "pip", "install", "-q", "--python", str(python), *FRAMEWORKS]
        for command in ([uv, "venv", "-q", "--clear", str(folder)], install):
            ended = subprocess.run(
                command, capture_output=True, text=True, cwd=cache_dir, check=False, env=outside_project()
            )
            if ended.returncode != 0:
                pytest.skip(f"the frameworks can't be installed: {ended.stderr[-300:]}")
        (folder / "done").touch()
    return str(python)


def test_the_ai_sdk_and_langchain_for_javascript_search_a_store(url: str, cache_dir: Path) -> None:
    if os.environ.get("FRAMEWORK_TESTS") != "1":
        pytest.skip("the AI SDK and LangChain for JavaScript are tested with FRAMEWORK_TESTS=1")
    script = install_package(cache_dir, *NODE_FRAMEWORKS) / "file_search_story.mjs"
    script.write_text((FOLDER / script.name).read_text())
    with sync_client(url) as client:
        store = client.vector_stores.create(name="grain")
        wheat = ("wheat.md", b"Wheat is ground into flour.")
        client.vector_stores.files.upload_and_poll(vector_store_id=store.id, file=wheat)
        ended = subprocess.run(
            [node(), str(script), url, store.id],
            capture_output=True,
            text=True,
            env=node_environment(),
            check=False,
        )
    assert ended.returncode == 0, ended.stderr[-3000:]
    results = json.loads(ended.stdout.splitlines()[-1])
    assert results.pop("ai sdk sources") == ["wheat.md"]
    assert results == dict.fromkeys(("ai sdk", "ai sdk stream", "langchain"), "It is so [1].")


def outside_project() -> dict[str, str]:
    """The environment of a Python that is not this one, and that asks no server but ours."""
    kept = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}
    return {**kept, "NO_PROXY": "127.0.0.1", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}


def test_litellm_langchain_and_llama_index_search_a_store_and_ask_it(
    url: str, frameworks_python: str
) -> None:
    with sync_client(url) as client:
        store = client.vector_stores.create(name="grain")
        for name, text, year in (
            ("wheat.md", b"Wheat is ground into flour.", 2020),
            ("rye.md", b"Rye flour.", 1990),
        ):
            client.vector_stores.files.upload_and_poll(
                vector_store_id=store.id, file=(name, text), attributes={"year": year}
            )
        ended = subprocess.run(
            [frameworks_python, str(FOLDER / "frameworks_story.py"), url, store.id],
            capture_output=True,
            text=True,
            check=False,
            env=outside_project(),
        )
        assert ended.returncode == 0, ended.stderr[-3000:]
        results = json.loads(ended.stdout.splitlines()[-1])
        assert client.vector_stores.retrieve(results.pop("created")).name == "rye"
    assert results.pop("search") == ["wheat.md"]
    assert results.pop("langchain tokens") == USAGE["total_tokens"]
    for framework in ("langchain", "llama_index"):
        assert results.pop(f"{framework} files")[0] == "wheat.md", "the tool found it in the store"
    assert results.pop("langchain cited") == ["wheat.md"]
    for name in ("langchain file_search", "langchain file_search stream", "llama_index file_search"):
        assert results.pop(name) == "It is so [1].", name
    assert len(results) == 4
    for client_name, answer in results.items():
        assert answer.startswith("It is so [1].\n\n[1] "), client_name


def test_requests_may_have_null_for_what_they_do_not_set(url: str) -> None:
    """As LiteLLM sends them."""
    with sync_client(url) as client:
        nulls = {
            "file_ids": None,
            "expires_after": None,
            "chunking_strategy": None,
            "metadata": None,
            "description": None,
        }
        store = client.vector_stores.create(name="nulls", extra_body=nulls)
        file = client.files.create(file=("a.txt", b"Oats."), purpose="assistants")
        none = {"attributes": None, "chunking_strategy": None}
        client.vector_stores.files.create(store.id, file_id=file.id, extra_body=none)
        batch = client.vector_stores.file_batches.create_and_poll(
            store.id, file_ids=[file.id], extra_body={**none, "files": None}
        )
        assert batch.status == "completed"
        options = {"filters": None, "ranking_options": {"ranker": None, "score_threshold": None}}
        assert client.vector_stores.search(store.id, query="oats", extra_body=options).data
