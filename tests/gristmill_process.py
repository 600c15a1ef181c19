"""Real `gristmill` processes, started and ended the way people and kernels do."""

import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests import process_template, reverse_proxy, signed_in_browsers
from tests.process_template import Process

_READY = re.compile(r"ready at (http://\S+)")


@dataclass(frozen=True)
class ServeProcess:
    """A running `gristmill serve`."""

    process: Process
    url: str
    key: str | None = None  # of an admin, if it is behind a proxy: there is no local user then

    def client(self) -> httpx.Client:
        """A client of its API."""
        headers = {} if self.key is None else {"Authorization": f"Bearer {self.key}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=30, trust_env=False, verify=False)

    def child_pids(self) -> dict[str, int]:
        """The pids of the processes that it runs, by their names: `server-1`, `worker-1`."""
        pid = self.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        names = {Path(f"/proc/{child}/comm").read_text().strip(): int(child) for child in children}
        return {name.removeprefix("gm-"): pid for name, pid in names.items() if name.startswith("gm-")}

    def kill(self) -> None:
        """kill -9, and see it gone."""
        self.process.kill()
        self.process.wait(120)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to stop; its exit code."""
        self.process.send_signal(number)
        return self.process.wait(120)


def environment(data_dir: Path, cache_dir: Path, **settings: str) -> dict[str, str]:
    """What a `gristmill` process of a test is given."""
    overrides = {f"GRISTMILL_{name.upper()}": value for name, value in settings.items()}
    folders = {"GRISTMILL_DATA_DIR": str(data_dir), "GRISTMILL_CACHE_DIR": str(cache_dir)}
    defaults = {"GRISTMILL_RECONCILE_CRON": "0 0 29 2 *", "GRISTMILL_READER_PROCESSES": "1"}
    return {**os.environ, "COLUMNS": "200", "PYTHONWARNINGS": "error", **defaults, **folders, **overrides}


@contextmanager
def run_serve(env: Mapping[str, str], *, log: Path, port: str = "0") -> Generator[ServeProcess]:
    """`gristmill serve` on a free port, or this one, ready; killed at the end if it still runs. Its log goes to `log`. With
    BEHIND_NGINX=1, nginx has this port and forwards to it."""
    if not reverse_proxy.BEHIND_NGINX:
        with _run_server(env, log=log, port=port) as server:
            yield server
        return
    # Requests through a proxy have a key, and may read no other paths.
    with (
        _run_server({"GRISTMILL_ALLOWED_PATHS": '["/"]', **env}, log=log) as server,
        reverse_proxy.run_nginx(server.url, int(port)) as url,
        signed_in_browsers.share(url, key := _create_admin_key(server)),
    ):
        os.environ["SSL_CERT_FILE"] = str(reverse_proxy.certificate().path)  # for our own client
        yield ServeProcess(server.process, url, key)


def _create_admin_key(server: ServeProcess) -> str | None:
    """The secret of a new admin key, if the server has a local user who may create it."""
    with server.client() as client:
        response = client.post("/api/api-keys", json={"name": "behind nginx", "role": "admin"})
    return response.json()["key"] if response.status_code == 201 else None


@contextmanager
def _run_server(env: Mapping[str, str], *, log: Path, port: str = "0") -> Generator[ServeProcess]:
    with log.open("a") as stderr:
        process = process_template.start(["gristmill", "serve", "--port", port], env, stderr=stderr)
    assert process.stdout is not None
    with process.stdout:
        try:
            line = process.stdout.readline()
            ready = _READY.search(line)
            assert ready is not None, f"did not become ready: {line!r} {log.read_text()[-3000:]}"
            yield ServeProcess(process, ready.group(1))
        finally:
            if process.poll() is None:
                process.kill()
            process.wait(120)


def run_command(
    env: Mapping[str, str], *arguments: str, fork: bool = True
) -> "subprocess.CompletedProcess[str]":
    """Run a `gristmill` command to its end."""
    with tempfile.TemporaryFile("w+") as stdout, tempfile.TemporaryFile("w+") as stderr:
        words = ["gristmill", *arguments]
        process = process_template.start(words, env, stdout=stdout, stderr=stderr, fork=fork)
        try:
            code = process.wait(120)
        finally:
            process.kill()
            process.wait(120)
        stdout.seek(0)
        stderr.seek(0)
        return subprocess.CompletedProcess(arguments, code, stdout.read(), stderr.read())
