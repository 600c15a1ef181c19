"""kill -9 of a rotation of the sealing key at every step, while a server and its worker seal and open secrets."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from gristmill.integrity import rotate_secrets
from gristmill.vault import Vault
from tests.events.receiver import receiving
from tests.gristmill_process import ServeProcess, environment, run_command, run_serve
from tests.wait_until import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.crash]

POINTS = (
    "rotate.key_added",
    "rotate.before_commit",
    "rotate.batch_sealed",
    "rotate.sealed",
    "rotate.retired",
    "rotate.key_dropped",
)


class Writer(threading.Thread):
    """Creates webhooks one after the other, each with an idempotency key, until it is stopped."""

    def __init__(self, server: ServeProcess, url: str) -> None:
        super().__init__(daemon=True)
        self.server, self.url = server, url
        self.created: list[str] = []
        self.refused: list[Any] = []
        self.stopped = threading.Event()

    def run(self) -> None:
        with self.server.client() as http:
            while not self.stopped.wait(0.02):
                response = create_webhook(http, self.url, f"writer-{len(self.created)}")
                if response.status_code == 201:
                    self.created.append(response.json()["id"])
                else:
                    self.refused.append(response.json()["code"])


def create_webhook(http: httpx.Client, url: str, key: str) -> httpx.Response:
    body = {"url": url, "types": ["BaseCreated"]}
    return http.post("/api/webhooks", json=body, headers={"Idempotency-Key": key})


async def test_a_rotation_killed_at_every_step_loses_no_secret(
    database_url: str, tmp_path: Path, cache_dir: Path, quick_embedder: dict[str, str]
) -> None:
    """The server and its worker seal and open throughout; in the end there is one key, and it opens everything."""
    data = tmp_path / "data"
    settings = {"database_url": database_url, "max_webhooks": "10000"}
    env = environment(data, cache_dir, **settings, **quick_embedder)
    async with receiving() as receiver:
        with run_serve(env, log=tmp_path / "log") as server, server.client() as http:
            hook = create_webhook(http, receiver.url, "first").json()
            writer = Writer(server, "https://receiver.example/hook")
            writer.start()
            for number, point in enumerate(POINTS, 1):
                killed = await asyncio.to_thread(
                    run_command, {**env, "GRISTMILL_FAULTS": f"{point}=kill"}, "secrets", "rotate"
                )
                assert killed.returncode == -9, (point, killed.stderr)
                repeated = create_webhook(http, receiver.url, "first")
                assert (repeated.json(), repeated.headers["idempotency-replayed"]) == (hook, "true"), point
                http.post("/api/knowledge-bases", json={"name": point}).raise_for_status()
                await receiver.wait_for_requests(number)  # signed by the worker, with the secret
                assert await asyncio.to_thread(_opens, http, hook["id"]), point
            finished = await asyncio.to_thread(run_command, env, "secrets", "rotate")
            assert finished.returncode == 0, finished.stderr
            written = len(writer.created)

            async def has_written_more() -> bool:
                return len(writer.created) > written

            await wait_until(has_written_more)
            writer.stopped.set()
            writer.join()
            assert set(writer.refused) <= {"sealing_key_replaced"}
            assert server.stop() == 0
    assert len((data / "secret.key").read_text().split()) == 1
    vault = Vault(None, data)
    with psycopg.connect(database_url) as connection:
        rows = connection.execute("select id::text, secret from webhook").fetchall()
        assert {row[0] for row in rows} >= {hook["id"], *writer.created}
        for row_id, sealed in rows:
            assert vault.open(sealed, row_id).startswith("whsec_")
        keys = connection.execute("select distinct key_id from sealed_value").fetchall()
        assert keys == [(vault.key_ids[0],)]


def _opens(http: httpx.Client, hook_id: str) -> bool:
    return http.post(f"/api/webhooks/{hook_id}/test").json()["error"] is None


def test_every_step_of_the_rotation_is_killed_once() -> None:
    source = Path(rotate_secrets.__file__).read_text()
    assert {f'"{point}"' in source for point in POINTS} == {True}
    assert source.count("faults.point(") == len(POINTS)
