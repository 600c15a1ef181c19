"""`gristmill mcp install`: the configuration of agents, printed or written next to what is there."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from gristmill import app
from gristmill.cli import serve_lock
from gristmill.identity import LOCAL_ORG
from tests.api_calls import add_items, make_base
from tests.cli.conftest import RunCommand
from tests.serve_api import serve_api
from tests.server.agents import tool_names
from tests.server.clients import new_key

pytestmark = pytest.mark.slow

ELSEWHERE = ("--url", "http://kb.invalid")  # no server answers there


def installed(run: RunCommand, *words: str, **variables: str) -> dict[str, Any]:
    outcome = run("mcp", "install", *words, "--json", **variables)
    return json.loads(outcome.stdout)


def test_each_agent_gets_its_form_with_a_place_for_the_key(run: RunCommand) -> None:
    server = {"type": "http", "url": "http://kb.invalid/mcp"}
    for name, placeholder in (("claude", "${GRISTMILL_API_KEY}"), ("cursor", "${env:GRISTMILL_API_KEY}")):
        config = installed(run, name, *ELSEWHERE)["config"]
        headers = {"Authorization": f"Bearer {placeholder}"}
        assert config == {"mcpServers": {"gristmill": {**server, "headers": headers}}}
    vscode = installed(run, "vscode", *ELSEWHERE)["config"]
    headers = {"Authorization": "Bearer ${input:gristmill-key}"}
    assert vscode["servers"] == {"gristmill": {**server, "headers": headers}}
    assert (vscode["inputs"][0]["id"], vscode["inputs"][0]["password"]) == ("gristmill-key", True)
    desktop = installed(run, "claude-desktop", *ELSEWHERE)["config"]["mcpServers"]["gristmill"]
    assert desktop["args"][-3:] == ["mcp", *ELSEWHERE]
    assert desktop["env"] == {"GRISTMILL_API_KEY": "gm_…"}
    assert run("mcp", "install", "emacs").code == "unknown_agent"


def test_only_a_key_of_the_command_line_is_shown(run: RunCommand) -> None:
    assert "gm_x" in run("mcp", "install", "cursor", *ELSEWHERE, "--key", "gm_x").stdout
    hidden = run("mcp", "install", "cursor", *ELSEWHERE, GRISTMILL_API_KEY="gm_x").stdout
    assert "gm_x" not in hidden
    assert "${env:GRISTMILL_API_KEY}" in hidden


def test_standard_output_is_the_configuration_alone(run: RunCommand) -> None:
    outcome = run("mcp", "install", "cursor", "--base", "a / b", "--name", "mill")
    assert json.loads(outcome.stdout) == {
        "mcpServers": {"mill": {"type": "http", "url": "http://127.0.0.1:7373/mcp/a%20%2F%20b"}}
    }


def test_the_file_keeps_what_is_in_it(run: RunCommand, tmp_path: Path) -> None:
    file = tmp_path / "new" / "mcp.json"
    words = ("vscode", *ELSEWHERE, "--write", "--file", str(file))
    assert installed(run, *words) == {
        "path": str(file),
        "written": True,
        "config": json.loads(file.read_text()),
    }
    assert file.stat().st_mode & 0o777 == 0o600
    content = json.loads(file.read_text())
    content["servers"]["other"] = {"command": "other"}
    content["inputs"].append({"id": "other"})
    file.write_text(json.dumps(content))
    installed(run, *words)
    again = json.loads(file.read_text())
    assert set(again["servers"]) == {"gristmill", "other"}
    assert sorted(entry["id"] for entry in again["inputs"]) == ["gristmill-key", "other"]
    assert [path.name for path in file.parent.iterdir()] == ["mcp.json"]
    file.write_text('{"servers": {} // mine\n}')
    assert run("mcp", "install", *words).code == "agent_config_unreadable"
    assert "mine" in file.read_text()


async def test_the_address_is_that_of_the_server_and_works(
    mill: app.Gristmill, http: httpx.AsyncClient, run: RunCommand, data_dir: Path
) -> None:
    await make_base(http, "notes")
    with serve_lock.acquire(data_dir) as lock:
        async with serve_api(mill) as url:
            lock.announce_url(url)
            config = (await asyncio.to_thread(installed, run, "cursor", "--base", "notes"))["config"]
            server = config["mcpServers"]["gristmill"]
            assert server == {"type": "http", "url": f"{url}/mcp/notes"}


@pytest.mark.filterwarnings("default")
async def test_the_command_of_an_agent_serves_one_base_of_a_server_elsewhere(
    mill: app.Gristmill, http: httpx.AsyncClient, run: RunCommand, env: dict[str, str]
) -> None:
    base = await make_base(http, "notes", acl=["team:7"])
    await add_items(http, base, {"type": "note", "content": "The wheel turns."})
    _, key = await new_key(mill.db, LOCAL_ORG, "reader", teams=("7",))
    async with serve_api(mill) as url:
        words = ("claude-desktop", "--base", "notes", "--url", url, "--key", key)
        config = (await asyncio.to_thread(installed, run, *words))["config"]["mcpServers"]["gristmill"]
        arguments = config["args"][config["args"].index("mcp") :]
        server = StdioServerParameters(
            command=sys.executable, args=["-m", "gristmill", *arguments], env={**env, **config["env"]}
        )
        async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
            await session.initialize()
            names = await tool_names(session)
            assert "list_bases" not in names
            assert "add_note" not in names
            listed = await session.call_tool("list_items", {})
            assert listed.structuredContent is not None
            assert [item["title"] for item in listed.structuredContent["items"]] == ["The wheel turns."]
