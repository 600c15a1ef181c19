"""A group of 50,000 people is one entry of an access list, and a check of one of them reads a few index pages."""

import json
from typing import Any, cast

import pytest
from psycopg import sql

from gristmill.db import Database
from gristmill.identity import LOCAL_ORG, UserFields, groups, users
from gristmill.identity.store import queries

pytestmark = pytest.mark.slow

PEOPLE = 50_000
# Groups of tools, of which there are none: tests/schema/test_plans.py has the plan where there are.
EMPTY_TABLES = {"connector_group", "connector_group_member", "connector_identity"}
MAX_PAGES = 60  # of 8 KiB; reading all members would take hundreds


def scans(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """All nodes of a plan."""
    return [plan, *(node for part in plan.get("Plans", []) for node in scans(part))]


async def test_a_check_does_not_depend_on_the_size_of_a_group(db: Database) -> None:
    """The check is what every request of a user or of their key does: the user with all their groups."""
    async with db.transaction() as tx:
        user = await users.insert_user(tx, LOCAL_ORG, UserFields("ann@x.org", "Ann"))
        everyone = await groups.insert_group(tx, LOCAL_ORG, "everyone")
        outer = await groups.insert_group(tx, LOCAL_ORG, "outer")
        await groups.add_members(tx, everyone, users=[user.id])
        await groups.add_members(tx, outer, groups=[everyone.id])
        await tx.execute(
            """with people as (insert into user_account (org_id, user_name, email, name, role, source)
                   select %s, n || '@y.org', n || '@y.org', 'person', 'reader', 'scim' from generate_series(2, %s) n returning id)
               insert into group_member (group_id, user_id, source) select %s, id, 'scim' from people""",
            (LOCAL_ORG, PEOPLE, everyone.id),
        )
    async with db.connection() as tx:
        await tx.execute("analyze")
    async with db.connection() as tx:
        assert (await groups.require_group(tx, LOCAL_ORG, everyone.id)).member_count == PEOPLE
        explain = sql.SQL("explain (analyze, buffers, format json) ").as_bytes() + queries["find_active_user"]
        (rows,) = cast(Any, await (await tx.execute(explain, {"id": user.id})).fetchone())
        (report,) = json.loads(rows) if isinstance(rows, str) else rows
        plan = report["Plan"]
        pages = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
        assert pages <= MAX_PAGES, json.dumps(report)
        full_scans = {node["Relation Name"] for node in scans(plan) if node["Node Type"] == "Seq Scan"}
        assert full_scans <= EMPTY_TABLES, json.dumps(report)
        active = await users.find_active_user(tx, user.id)
        assert active is not None
        assert set(active.groups) == {everyone.id, outer.id}
        print(f"{PEOPLE:,} members: {report['Execution Time']} ms, {pages} pages")
