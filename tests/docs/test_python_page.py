"""The examples of docs/reference/python.md run, in the order of the page, as programs of their own."""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import gristmill
from gristmill import client
from tests.docs.pages import SOURCE, blocks, read, sections
from tests.gristmill_process import environment, run_serve

PAGE = "docs/reference/python.md"


@pytest.mark.slow
def test_the_examples_run(database_url: str, data_dir: Path, cache_dir: Path, tmp_path: Path) -> None:
    """Against a server on a port of its own instead of the default one."""
    examples = [block.text for block in blocks(read(PAGE)) if block.language == "python"]
    assert len(examples) >= 6
    env = environment(data_dir, cache_dir, database_url=database_url)
    env["PYTHONPATH"] = str(SOURCE.parent)
    outputs: list[str] = []
    with run_serve(env, log=tmp_path / "log") as server:
        for example in examples:
            program = example.replace("http://127.0.0.1:7373", server.url)
            program = program.replace("Client()", f"Client({server.url!r})")
            process = subprocess.run(
                [sys.executable, "-c", program],
                env=env,
                cwd=tmp_path,
                capture_output=True,
                text=True,
                timeout=120,
            )
            assert process.returncode == 0, f"{example}\n{process.stderr}"
            outputs.append(process.stdout)
    assert "Refunds are paid within 14 days." in outputs[0]
    assert "stones.md completed None" in outputs[2]
    assert "'term': 'rye'" in outputs[3]
    assert outputs[4].startswith("base_not_found 404 ")
    assert "{'violations': []}" in outputs[5]


def public_methods(of: type) -> dict[str, inspect.Signature]:
    return {
        name: inspect.signature(method)
        for name, method in inspect.getmembers(of, inspect.isfunction)
        if not name.startswith("_")
    }


def test_both_clients_have_the_same_methods_and_the_page_names_them() -> None:
    """But for requests and streams, which are for event loops."""
    asynchronous, synchronous = public_methods(client.AsyncClient), public_methods(client.Client)
    assert set(asynchronous) - {"send", "events", "ask_stream"} == set(synchronous) - {"run"}
    table = sections(read(PAGE))["Everything else"]
    for name in set(asynchronous) - {"send", "events"}:
        assert f"`{name}(" in table, name


def test_the_package_has_both_clients() -> None:
    assert gristmill.Client is client.Client
    assert gristmill.AsyncClient is client.AsyncClient
    with pytest.raises(AttributeError):
        getattr(gristmill, "Oops")  # noqa: B009
