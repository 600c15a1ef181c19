"""Starts the npm package `emulate`, which emulates the APIs of Slack, Google, Linear and others.

It needs a download from npm, so tests with it are opt-in: `EMULATE_TESTS=1`.
"""

import json
import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.connectors.servers import run_program
from tests.free_port import free_port
from tests.node_packages import install_package, node

VERSION = "0.12.2"
TOKEN = "gristmill-test-token"


@dataclass(frozen=True)
class EmulatedTool:
    """An emulated tool that runs, and a token that it accepts."""

    url: str
    token: str

    def post(self, path: str, **body: object) -> dict[str, Any]:
        """Post JSON; the response, which must say that it worked."""
        return self._send("POST", path, json=body)

    def patch(self, path: str, **body: object) -> dict[str, Any]:
        """The same with PATCH."""
        return self._send("PATCH", path, json=body)

    def upload(self, path: str, content: bytes, content_type: str) -> dict[str, Any]:
        """Post bytes."""
        return self._send("POST", path, content=content, content_type=content_type)

    def _send(
        self, method: str, path: str, *, content_type: str | None = None, **body: Any
    ) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self.token}"}
        if content_type is not None:
            headers["Content-Type"] = content_type
        response = httpx.request(method, f"{self.url}{path}", headers=headers, timeout=30, **body)
        data = response.json()
        assert response.is_success, data
        assert data.get("ok", True), data
        assert not data.get("errors"), data
        return data


@contextmanager
def run_emulator(seed: dict[str, Any], cache_dir: Path) -> Generator[EmulatedTool]:
    """Run the emulator of the service that the seed has next to `tokens`. Skips the test if it can't be had."""
    folder = install_package(cache_dir, f"emulate@{VERSION}")
    (service,) = seed.keys() - {"tokens"}
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="gristmill-emulate-") as place:
        file = Path(place) / "seed.json"
        file.write_text(json.dumps(seed))
        program = folder / "node_modules/emulate/dist/index.js"
        options = ["--service", service, "--port", str(port), "--seed", str(file)]
        with run_program([node(), str(program), *options], port, Path(place) / "log", cwd=Path(place)):
            yield EmulatedTool(f"http://127.0.0.1:{port}", TOKEN)


@contextmanager
def emulate(seed: dict[str, Any], cache_dir: Path) -> Generator[EmulatedTool]:
    """The emulator for a test, if it is asked for."""
    if not os.environ.get("EMULATE_TESTS"):
        pytest.skip("EMULATE_TESTS is not set: the emulator needs a download from npm")
    with run_emulator(seed, cache_dir) as tool:
        yield tool
