"""The MCP configuration of agents: where it is, how it looks, and how it is written next to what is there.

| agent          | file                                                     | servers in   | a key comes from             |
|----------------|----------------------------------------------------------|--------------|------------------------------|
| claude         | `.mcp.json` of the project                               | `mcpServers` | the variable GRISTMILL_API_KEY |
| claude-desktop | `claude_desktop_config.json`, in the user's config folder | `mcpServers` | the file itself; it starts `gristmill mcp` |
| cursor         | `~/.cursor/mcp.json`                                     | `mcpServers` | the variable GRISTMILL_API_KEY |
| vscode         | `.vscode/mcp.json` of the project                        | `servers`    | a prompt of the editor       |

A key of the command line is written as it is, into a file that only the user can read; one of the settings is not.
"""

import json
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote, urlsplit

from gristmill.cli import serve_lock
from gristmill.client import AsyncClient, Refused
from gristmill.errors import Invalid
from gristmill.settings import Settings

_PLACEHOLDERS = {
    "claude": "${GRISTMILL_API_KEY}",
    "cursor": "${env:GRISTMILL_API_KEY}",
    "vscode": "${input:gristmill-key}",
    "claude-desktop": "gm_…",
}
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class AgentConfig:
    """What to write where, and what the user should know about it."""

    path: Path
    content: dict[str, Any]
    hints: tuple[str, ...]


async def configure(
    settings: Settings, agent: str, *, base: str | None, name: str, key: str | None, file: Path | None
) -> AgentConfig:
    """The configuration of an agent for the server that commands use, with this key or a place for one."""
    if agent not in _PLACEHOLDERS:
        raise Invalid(
            f"{agent!r} is not an agent that can be configured. Use claude, claude-desktop, cursor or vscode.",
            code="unknown_agent",
        )
    url = settings.url or serve_lock.find_server_url(settings.data_dir)
    hints: list[str] = []
    if url is None:
        url = f"http://127.0.0.1:{settings.port}"
        hints.append(f"No server is running. This is for one at {url}: start `gristmill serve`.")
    if key is None and (settings.api_key is not None or await _needs_key(url)):
        key = _PLACEHOLDERS[agent]
        hints.append(_key_hint(agent))
    if agent == "claude-desktop":
        content = {"mcpServers": {name: _command(settings, base, key)}}
    else:
        content = _address(agent, name, url, base, key)
    return AgentConfig((file or _usual_path(agent)).expanduser().absolute(), content, tuple(hints))


def write(config: AgentConfig) -> None:
    """Add the server to the file. Other servers in it stay; the file is replaced as a whole, readable by its owner only."""
    content = _merge(_read(config.path), config.content)
    config.path.parent.mkdir(parents=True, exist_ok=True)
    draft = config.path.with_name(f".{config.path.name}.{os.getpid()}")
    try:
        draft.touch(mode=0o600)
        draft.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        draft.replace(config.path)
    finally:
        draft.unlink(missing_ok=True)


def _address(agent: str, name: str, url: str, base: str | None, key: str | None) -> dict[str, Any]:
    """For an agent that speaks HTTP."""
    address = f"{url}/mcp" if base is None else f"{url}/mcp/{quote(base, safe='')}"
    server: dict[str, Any] = {"type": "http", "url": address}
    if key is not None:
        server["headers"] = {"Authorization": f"Bearer {key}"}
    if agent != "vscode":
        return {"mcpServers": {name: server}}
    content: dict[str, Any] = {"servers": {name: server}}
    if key == _PLACEHOLDERS["vscode"]:
        content["inputs"] = [
            {
                "type": "promptString",
                "id": "gristmill-key",
                "description": f"API key of Gristmill at {url}",
                "password": True,
            }
        ]
    return content


def _command(settings: Settings, base: str | None, key: str | None) -> dict[str, Any]:
    """For an agent that starts its servers itself. It has neither the PATH nor the variables of a shell."""
    program = shutil.which("gristmill")
    words = [program] if program else [sys.executable, "-m", "gristmill"]
    words += ["mcp"] if base is None else ["mcp", "--base", base]
    words += ["--url", settings.url] if settings.url else ["--data-dir", str(settings.data_dir)]
    environment = {} if key is None else {"env": {"GRISTMILL_API_KEY": key}}
    return {"command": words[0], "args": words[1:], **environment}


async def _needs_key(url: str) -> bool:
    """Whether the server refuses requests without a key. One that can't be asked needs none on this machine."""
    try:
        async with AsyncClient(url, retries=0) as client:
            await client.call("GET", "/session")
    except Refused as error:
        return urlsplit(url).hostname not in _LOOPBACK if error.code == "no_answer" else True
    return False


def _key_hint(agent: str) -> str:
    match agent:
        case "vscode":
            return "VS Code asks for the API key once, and stores it."
        case "claude-desktop":
            return "Put the API key in place of gm_…, or pass --key."
        case _:
            return "Set GRISTMILL_API_KEY where the agent starts, or pass --key to write the key itself."


def _usual_path(agent: str) -> Path:
    match agent:
        case "claude":
            return Path(".mcp.json")
        case "cursor":
            return Path("~/.cursor/mcp.json")
        case "vscode":
            return Path(".vscode/mcp.json")
        case _:
            folders = {"darwin": "~/Library/Application Support", "win32": os.environ.get("APPDATA", "~")}
            return Path(folders.get(sys.platform, "~/.config"), "Claude", "claude_desktop_config.json")


def _read(path: Path) -> dict[str, Any]:
    content: Any = None
    try:
        text = path.read_text(encoding="utf-8")
        content = json.loads(text) if text.strip() else {}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError):
        pass
    if not isinstance(content, dict):
        raise Invalid(
            f"{path} can't be read as JSON, so it was not changed. Add the configuration yourself; "
            "without --write it is printed.",
            code="agent_config_unreadable",
        )
    return cast(dict[str, Any], content)


def _merge(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """The old configuration with the new server; a server of the same name is replaced."""
    merged = dict(old)
    for name, value in new.items():
        if isinstance(value, list):
            entries, old_entries = cast(list[Any], value), cast(list[Any], merged.get(name) or [])
            merged[name] = [*(entry for entry in old_entries if entry not in entries), *entries]
        else:
            merged[name] = {**(merged.get(name) or {}), **value}
    return merged
