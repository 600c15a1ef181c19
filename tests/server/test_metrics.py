"""`/metrics`."""

from datetime import timedelta
from uuid import UUID

import httpx

from gristmill import app, jobs
from gristmill.catalog import BaseId
from gristmill.telemetry import pipeline_metrics
from gristmill.work import DeleteBase
from tests.server.clients import client_with_key, new_key, new_organisation
from tests.wait_until import wait_until

COUNTED = (
    ("gristmill_stage_seconds_count", "read"),
    ("gristmill_stage_seconds_count", "all"),
    ("gristmill_stage_seconds_sum", "embed"),
    ("gristmill_batch_size_sum", "embed"),
    ("gristmill_batch_size_sum", "write"),
)


def current_samples() -> list[float]:
    """The registry belongs to the process, so earlier tests have counted in it."""
    samples = [pipeline_metrics.REGISTRY.get_sample_value(name, {"stage": stage}) for name, stage in COUNTED]
    return [value or 0.0 for value in samples]


async def test_metrics_show_stages_batches_and_violations(
    mill: app.Gristmill, http: httpx.AsyncClient
) -> None:
    base = (await http.post("/api/knowledge-bases", json={"name": "b"})).json()["id"]
    before = current_samples()
    response = await http.post(
        f"/api/knowledge-bases/{base}/items", json={"items": [{"type": "note", "content": "a wheel"}]}
    )
    item = response.json()["created"][0]["id"]

    async def is_measured() -> bool:
        return all(later > then for later, then in zip(current_samples(), before, strict=True))

    await wait_until(is_measured)
    async with mill.db.transaction() as tx:
        await tx.execute("update item set status = 'reading' where id = %s", [item])
    metrics_text = (await http.get("/metrics")).text
    for name, stage in COUNTED:
        assert f'{name}{{stage="{stage}"}}' in metrics_text
    assert 'gristmill_violations{promise="nothing_is_stuck"} 1.0' in metrics_text
    assert 'gristmill_violations{promise="nothing_comes_back"} 0.0' in metrics_text


async def test_metrics_count_requests_searches_and_jobs_without_lanes_of_other_organisations(
    mill: app.Gristmill, http: httpx.AsyncClient
) -> None:
    org = await new_organisation(mill.db, "other")
    async with client_with_key(mill, (await new_key(mill.db, org, "admin"))[1]) as other_admin:
        bases = [
            (await client.post("/api/knowledge-bases", json={"name": "b"})).json()["id"]
            for client in (http, other_admin)
        ]
        assert (await other_admin.get("/metrics")).json()["code"] == "operator_only"
    async with mill.db.transaction() as tx:
        for base in bases:
            work = DeleteBase(BaseId(UUID(base)))
            await jobs.enqueue(tx, jobs.NewJob(work, lane=base, delay=timedelta(hours=1)))
    await http.post("/api/search", json={"query": "x", "mode": "text"})
    text = (await http.get("/metrics")).text
    assert 'gristmill_requests_total{method="POST",status="201"} 2.0' in text
    assert 'gristmill_search_seconds_count{mode="text"} 1.0' in text
    assert f'gristmill_jobs{{kind="delete_base",lane="{bases[0]}",state="delayed"}} 1.0' in text
    assert 'gristmill_jobs{kind="delete_base",lane="other",state="delayed"} 1.0' in text
    assert bases[1] not in text
    assert "gristmill_event_lag_seconds" in text
