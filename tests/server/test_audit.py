"""The audit log by action, as a file, and with reads."""

import csv
import io
import json
from datetime import timedelta

import httpx
import pytest

from gristmill import app
from gristmill.identity import LOCAL_ORG, audit
from gristmill.settings import Settings
from tests.database_clock import DatabaseClock


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


async def test_entries_leave_the_log_after_their_retention(
    clock: DatabaseClock, mill: app.Gristmill, http: httpx.AsyncClient
) -> None:
    """Each request removes some that are older than `audit_retention`; sign-ins and reads as well as changes."""
    for name in ("rye", "oats"):
        await http.post("/api/knowledge-bases", json={"name": name})
    async with mill.db.transaction() as tx:
        await audit.record_sign_in(tx, LOCAL_ORG, actor="ann@example.org", role="reader", status=200)
    await clock.advance(mill.settings.audit_retention - timedelta(hours=1))
    await http.post("/api/knowledge-bases", json={"name": "spelt"})
    assert len((await http.get("/api/audit?action=change")).json()["items"]) == 3
    await clock.advance(timedelta(hours=2))
    await http.post("/api/knowledge-bases", json={"name": "emmer"})
    assert len((await http.get("/api/audit?action=change")).json()["items"]) == 2
    assert (await http.get("/api/audit?action=sign_in")).json()["items"] == []
