"""Servers written in Go, built from their modules through the Go module proxy: MinIO, fake-gcs-server and Gitea.

A build takes minutes, so the programs are kept in a cache folder with the modules. They are run as they are and are no part of this
project.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.connectors.servers import ServerUnavailable, run_program
from tests.free_port import free_port
from tests.wait_until import wait_without_loop

ACCESS_KEY, SECRET_KEY = "gristmill", "s3cret-s3cret"
USER, PASSWORD = "ann", "s3cret-s3cret"
_BUILD_SECONDS = 1500
_MINIO = ("github.com/minio/minio", "v0.0.0-20260212201848-7aac2a2c5b7c", "")
_FAKE_GCS_SERVER = ("github.com/fsouza/fake-gcs-server", "v1.56.1", "")
# The newest release whose modules the proxy has.
_GITEA = ("code.gitea.io/gitea", "v1.25.5", "sqlite,sqlite_unlock_notify")
_GITEA_CONFIG = """
APP_NAME = Mill
RUN_USER = {user}
RUN_MODE = prod
I_AM_BEING_UNSAFE_RUNNING_AS_ROOT = true
WORK_PATH = {place}
[server]
HTTP_ADDR = 127.0.0.1
HTTP_PORT = {port}
ROOT_URL = http://127.0.0.1:{port}/
DISABLE_SSH = true
OFFLINE_MODE = true
STATIC_ROOT_PATH = {source}
[database]
DB_TYPE = sqlite3
PATH = {place}/gitea.db
[repository]
ROOT = {place}/repositories
[security]
INSTALL_LOCK = true
SECRET_KEY = {secret}
INTERNAL_TOKEN = {secret}
[log]
MODE = console
LEVEL = Warn
[cron]
ENABLED = false
"""


@dataclass(frozen=True)
class _GoProgram:
    """A program that was built, its version, and the folder of its source."""

    path: Path
    version: str
    source: Path


@contextmanager
def run_minio(place: Path, cache: Path) -> Generator[tuple[str, str]]:
    """MinIO with its data below `place`; its address and version."""
    program = _build(*_MINIO, cache)
    port = free_port()
    env = {
        **os.environ,
        "MINIO_ROOT_USER": ACCESS_KEY,
        "MINIO_ROOT_PASSWORD": SECRET_KEY,
        "MINIO_BROWSER": "off",
        "MINIO_UPDATE": "off",
        "HOME": str(place),
    }
    command = [str(program.path), "server", "--address", f"127.0.0.1:{port}", str(place / "data")]
    url = f"http://127.0.0.1:{port}"
    with run_program(command, port, place / "output", env=env):
        # It accepts connections before it accepts requests.
        wait_without_loop(lambda: httpx.get(f"{url}/minio/health/ready").is_success)
        yield url, program.version


@contextmanager
def run_fake_gcs_server(place: Path, cache: Path) -> Generator[tuple[str, str]]:
    """fake-gcs-server with its objects in memory and its output below `place`; its address and version."""
    program = _build(*_FAKE_GCS_SERVER, cache)
    port = free_port()
    command = [str(program.path), "-backend", "memory", "-scheme", "http", "-host", "127.0.0.1"]
    # Under its public host, the bucket is in the path.
    command += ["-port", str(port), "-public-host", "127.0.0.1"]
    with run_program(command, port, place / "output"):
        yield f"http://127.0.0.1:{port}", program.version


@contextmanager
def run_gitea(place: Path, cache: Path) -> Generator[tuple[str, str]]:
    """Gitea with its data below `place` and one user; its address and version."""
    program = _build(*_GITEA, cache)
    port = free_port()
    config = place / "app.ini"
    config.write_text(
        _GITEA_CONFIG.format(
            user="root" if os.geteuid() == 0 else os.environ.get("USER", ""),
            place=place,
            port=port,
            source=program.source,
            secret="s3cret" * 8,
        )
    )
    env = {**os.environ, "GITEA_WORK_DIR": str(place), "HOME": str(place)}
    command = [str(program.path), "--config", str(config)]
    user = ["--username", USER, "--password", PASSWORD, "--email", "ann@example.org", "--admin"]
    for arguments in (["migrate"], ["admin", "user", "create", *user, "--must-change-password=false"]):
        ended = subprocess.run([*command, *arguments], env=env, capture_output=True, text=True, check=False)
        if ended.returncode != 0:
            raise ServerUnavailable(f"Gitea does not start: {(ended.stderr or ended.stdout)[-300:]}")
    with run_program([*command, "web"], port, place / "output", env=env):
        yield f"http://127.0.0.1:{port}", program.version


def _build(module: str, version: str, tags: str, cache: Path) -> _GoProgram:
    """Build the program of a module, once for a cache folder."""
    go = shutil.which("go")
    if go is None:
        raise ServerUnavailable("Go is not installed")
    env = {
        **os.environ,
        "GOMODCACHE": str(cache / "go/modules"),
        "GOCACHE": str(cache / "go/build"),
        "GOFLAGS": "-modcacherw -buildvcs=false",
    }
    cache.mkdir(parents=True, exist_ok=True)
    download = _run_go([go, "mod", "download", "-json", f"{module}@{version}"], env, cache)
    source = Path(json.loads(download)["Dir"])
    program = cache / "bin" / f"{module.rpartition('/')[2]}-{version}"
    if not program.exists():
        program.parent.mkdir(parents=True, exist_ok=True)
        half_built = program.with_suffix(".building")
        _run_go([go, "build", "-tags", tags, "-o", str(half_built), "."], env, source)
        half_built.rename(program)
    return _GoProgram(program, version, source)


def _run_go(command: list[str], env: dict[str, str], folder: Path) -> str:
    try:
        ended = subprocess.run(
            command, env=env, cwd=folder, capture_output=True, text=True, timeout=_BUILD_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise ServerUnavailable(f"{' '.join(command[1:3])} took more than {_BUILD_SECONDS} seconds") from None
    if ended.returncode != 0:
        lines = (ended.stderr or ended.stdout).strip().splitlines()
        raise ServerUnavailable(f"{' '.join(command[1:3])} failed: {lines[-1][-300:] if lines else ''}")
    return ended.stdout
