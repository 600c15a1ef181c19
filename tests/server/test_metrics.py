"""What `/metrics` tells of the work itself."""

import httpx

from gristmill import app
from gristmill.telemetry import pipeline_metrics
from tests.wait_until import wait_until

COUNTED = (
    ("gristmill_stage_seconds_count", "read"),
    ("gristmill_stage_seconds_count", "all"),
    ("gristmill_stage_seconds_sum", "embed"),
    ("gristmill_batch_size_sum", "embed"),
    ("gristmill_batch_size_sum", "write"),
)


def current_samples() -> list[float]:
    """The registry is the process's: other tests counted before."""
    samples = [pipeline_metrics.REGISTRY.get_sample_value(name, {"stage": stage}) for name, stage in COUNTED]
    return [value or 0.0 for value in samples]


async def test_metrics_tell_stages_batches_and_broken_promises(
    mill: app.Gristmill, http: httpx.AsyncClient
) -> None:
    base = (await http.post("/api/knowledge-bases", json={"name": "b"})).json()["id"]
    before = current_samples()
    added = await http.post(
        f"/api/knowledge-bases/{base}/items", json={"items": [{"type": "note", "content": "a wheel"}]}
    )
    item = added.json()["created"][0]["id"]

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
