"""PostgreSQL is killed under a running server: it is restarted, and work continues."""

import os
import signal
from pathlib import Path

import httpx

from tests.crash.test_kill import add_notes, counts, reconciler_repairs
from tests.gristmill_process import environment, run_serve
from tests.wait_until import wait_until


async def test_a_killed_postgres_is_started_again_and_nothing_is_lost(
    data_dir: Path, tmp_path: Path, cache_dir: Path
) -> None:
    env = environment(data_dir, cache_dir, lease="2")
    with run_serve(env, log=tmp_path / "log") as server:
        base = add_notes(server)
        postmaster = int((data_dir / "postgres/data/postmaster.pid").read_text().splitlines()[0])
        os.kill(postmaster, signal.SIGKILL)

        async def all_done() -> bool:
            try:
                return counts(server, base) == {"completed": 200}
            except (httpx.HTTPError, KeyError):  # 503 while it is away
                return False

        await wait_until(all_done, limit=60)
        with server.client() as http:
            assert http.get("/api/health/invariants").json() == {"violations": []}
        assert set((await reconciler_repairs(server)).values()) == {0}
        assert server.stop() == 0
    log = (tmp_path / "log").read_text()
    assert "PostgreSQL had died and was restarted" in log
    assert "Traceback" not in log
    assert len(log.splitlines()) < 100, "an outage is logged a few times, not constantly"
