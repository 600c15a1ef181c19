"""A quota of items limits what a connector files; what is over it fails, and is indexed when there is room."""

import httpx
import pytest

from tests.connectors.fakes.github import FakeGitHub
from tests.connectors.fakes.tool import fake_tool_fixture
from tests.connectors.harness import ConnectorHarness
from tests.wait_until import wait_until

pytestmark = pytest.mark.slow

tool = fake_tool_fixture(FakeGitHub)
COMPLETED = "select count(*) from item where type = 'record' and status = 'completed'"
FAILED = "select count(*) from item where type = 'record' and status = 'failed'"


async def test_a_quota_limits_what_a_connector_adds(
    harness: ConnectorHarness, http: httpx.AsyncClient
) -> None:
    base = str(harness.base.id)
    new = {"kind": "quota", "measure": "items", "amount": 6, "baseId": base}
    quota = (await http.post("/api/limits", json=new)).json()
    run = await harness.sync()
    assert run.status == "completed_with_errors"
    ((over,),) = await harness.fetch(FAILED)
    ((indexed,),) = await harness.fetch(COMPLETED)
    assert (over > 0, indexed > 0, run.item_errors) == (True, True, over)
    codes = await harness.fetch("select distinct error_code from item where status = 'failed'")
    assert codes == [("quota_exceeded",)]
    (limit,) = (await http.get("/api/limits", params={"baseId": base})).json()["items"]
    assert limit["used"] <= limit["amount"]
    await http.patch(f"/api/limits/{quota['id']}", json={"amount": 1000})
    body = {"filter": {"status": ["failed"], "leaves": True}, "onActive": "skip"}
    (await http.post(f"/api/knowledge-bases/{base}/items/reindex", json=body)).raise_for_status()

    async def is_complete() -> bool:
        return await harness.fetch(COMPLETED) == [(over + indexed,)]

    await wait_until(is_complete)
