"""The audit log by action, as a file, and with reads."""

import csv
import io
import json

import httpx
import pytest

from gristmill import app
from gristmill.identity import LOCAL_ORG, audit
from gristmill.settings import Settings


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"audit_reads": True})


async def test_reads_changes_exports_and_sign_ins_are_told_apart_and_exported(
    mill: app.Gristmill, http: httpx.AsyncClient
) -> None:
    base = (await http.post("/api/knowledge-bases", json={"name": "=rye"})).json()["id"]
    await http.get(f"/api/knowledge-bases/{base}")
    await http.post(f"/api/knowledge-bases/{base}/search", json={"query": "rye"})
    await http.post("/api/session", json={"key": "gm_wrong"})
    async with mill.db.transaction() as tx:
        await audit.record_sign_in(tx, LOCAL_ORG, actor="ann@example.org", role="reader", status=200)
    table = list(csv.DictReader(io.StringIO((await http.get("/api/audit?format=csv&action=change")).text)))
    assert [(row["method"], row["path"], row["status"]) for row in table] == [
        ("POST", "/api/knowledge-bases", "201")
    ]
    lines = (await http.get("/api/audit?format=jsonl&action=read")).text.splitlines()
    assert {json.loads(line)["path"] for line in lines} == {
        f"/api/knowledge-bases/{base}",
        f"/api/knowledge-bases/{base}/search",
    }
    exports = (await http.get("/api/audit?action=export")).json()["items"]
    assert {entry["path"] for entry in exports} == {"/api/audit"}
    signed_in = (await http.get("/api/audit?action=sign_in&actor=ann")).json()["items"]
    assert [(entry["actor"], entry["action"]) for entry in signed_in] == [("ann@example.org", "sign_in")]
    assert (await http.get("/api/audit?action=other")).status_code == 422
