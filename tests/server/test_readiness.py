"""`/readyz` reports what is missing, and a worker serves it on its own port."""

import re
import signal
from pathlib import Path

import httpx
import psycopg
import pytest

from gristmill import app
from gristmill.integrity import readiness as ready
from gristmill.settings import Settings
from tests import process_template
from tests.embedding.hashed import HashedEmbedder
from tests.gristmill_process import environment

pytestmark = pytest.mark.slow


async def readiness(http: httpx.AsyncClient) -> tuple[int, str, dict[str, str | None]]:
    answer = await http.get("/readyz")
    report = answer.json()
    return answer.status_code, report["status"], {check["name"]: check["why"] for check in report["checks"]}


async def test_a_server_with_a_worker_is_ready(http: httpx.AsyncClient) -> None:
    nothing = dict.fromkeys(["database", "schema", "workers", "embedder", "disk"])
    assert await readiness(http) == (200, "ready", nothing)


async def test_without_workers_or_disk_space_it_is_degraded_with_reasons(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ready, "MIN_FREE_BYTES", 1 << 62)
    async with app.gristmill(settings, work=False, extra_embedders={"hashed": HashedEmbedder()}) as mill:
        transport = httpx.ASGITransport(app=mill.api)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            code, status, reasons = await readiness(http)
    assert (code, status) == (200, "degraded")
    assert "gristmill worker" in (reasons["workers"] or "")
    assert "free" in (reasons["disk"] or "")


async def test_a_failing_embedder_is_reported_without_its_error_text(settings: Settings) -> None:
    embedder = {"url": "http://127.0.0.1:9/secret-place", "model": "m", "dimensions": 8}
    overrides = settings.model_dump(exclude={"embedder", "embedders"}) | {
        "database_url": settings.database_url,
        "embedder": "gone",
        "embedders": {"gone": embedder},
    }
    async with app.gristmill(Settings.model_validate(overrides), work=False) as mill:
        checks = {check.name: check for check in await mill.context.readiness.run_checks()}
    assert not checks["embedder"].ok
    assert "secret" not in (checks["embedder"].why or "")


async def test_a_schema_of_another_release_is_unavailable(http: httpx.AsyncClient, database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("insert into schema_migration (number, name, checksum) values (9999, 'x', 'x')")
    code, status, reasons = await readiness(http)
    assert (code, status) == (503, "unavailable")
    assert "9999" in (reasons["schema"] or "")


def test_a_worker_serves_probes_on_its_own_port(
    database_url: str, data_dir: Path, cache_dir: Path, quick_embedder: dict[str, str], tmp_path: Path
) -> None:
    env = environment(
        data_dir,
        cache_dir,
        database_url=database_url,
        worker_port="0",
        access_log="true",
        **quick_embedder,
    )
    log = tmp_path / "log"
    with log.open("w") as stderr:
        worker = process_template.start(["gristmill", "worker"], env, stderr=stderr)
    assert worker.stdout is not None
    with worker.stdout:
        try:
            match = re.search(r"http://\S+(?=/metrics)", worker.stdout.readline())
            assert match is not None, log.read_text()
            with httpx.Client(base_url=match[0], timeout=30, trust_env=False) as client:
                assert client.get("/healthz").json()["status"] == "ok"
                assert client.get("/readyz").json()["status"] in ("ready", "degraded")  # it may still load
                assert "gristmill_stage_seconds" in client.get("/metrics").text
                assert client.get("/api/knowledge-bases").status_code == 404
                assert client.get("/metrics", headers={"X-Forwarded-For": "203.0.113.7"}).status_code == 401
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(120) == 0
        finally:
            worker.kill()
            worker.wait(120)
    assert '"path": "/readyz"' in log.read_text()
