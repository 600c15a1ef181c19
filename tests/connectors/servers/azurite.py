"""Starts the blob service of Azurite, Microsoft's emulator of Azure Storage, from its npm package.

It is run as it is, and without the telemetry that it would send to Microsoft.
"""

import base64
import hmac
import os
from collections.abc import Generator
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from tests.connectors.servers import run_program
from tests.free_port import free_port
from tests.node_packages import install_package, node

VERSION = "3.36.0"
ACCOUNT, ACCOUNT_KEY = "gristmill", base64.b64encode(b"key of the account").decode()


@contextmanager
def run_azurite(place: Path, cache: Path) -> Generator[str]:
    """Azurite with its blobs below `place`; the address of its account. Skips the test if it can't be had."""
    folder = install_package(cache, f"azurite@{VERSION}")
    port = free_port()
    program = folder / "node_modules/azurite/dist/src/blob/main.js"
    options = ["--blobHost", "127.0.0.1", "--blobPort", str(port), "--location", str(place / "data")]
    command = [node(), str(program), *options, "--disableTelemetry"]
    env = {**os.environ, "AZURITE_ACCOUNTS": f"{ACCOUNT}:{ACCOUNT_KEY}"}
    with run_program(command, port, place / "output", env=env, cwd=place):
        yield f"http://127.0.0.1:{port}/{ACCOUNT}"


def create_container(url: str, name: str) -> None:
    """Create a container in the account with this address; `obstore` can't, so the request is signed here."""
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2023-11-03"}
    canonical_headers = [f"{key}:{value}" for key, value in headers.items()]
    # The method, eleven headers that the request does not have, those of Azure, the address and its parameters.
    lines = [
        "PUT",
        *[""] * 11,
        *canonical_headers,
        f"/{ACCOUNT}{urlsplit(url).path}/{name}",
        "restype:container",
    ]
    signature = hmac.digest(base64.b64decode(ACCOUNT_KEY), "\n".join(lines).encode(), "sha256")
    headers["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(signature).decode()}"
    httpx.put(f"{url}/{name}", params={"restype": "container"}, headers=headers).raise_for_status()
