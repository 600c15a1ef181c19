"""The hot statements stay cheap however long the queue is: bounded by the pages they touch, not by the clock."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

from psycopg import AsyncCursor

from gristmill import jobs
from gristmill.catalog.lifecycle import TERMINAL, ItemStatus
from gristmill.db import Database
from gristmill.db.queries import Queries, Tx
from gristmill.identity import LOCAL_ORG, NewApiKey, UserFields, delete_key, insert_key, secret_hash, users
from gristmill.jobs import NewJob
from tests.jobs.sample_work import Plain

LANES = 200
NEW_BASE: dict[str, Any] = {
    "name": "new",
    "embedder": "x",
    "embedder_identity": "x",
    "dimensions": 2,
    "chunking": "{}",
    "file_processor": None,
    "on_restart": "resume",
    "settings": "{}",
    "acl": [],
    "org": LOCAL_ORG,
    "index_kind": "embedded",
    "description": "",
    "metadata": "{}",
    "expire_days": None,
}


async def claim_page_count(db: Database) -> int:
    """Pages that the second claim of 16 touches; the first may have hint bits to set."""
    worker = uuid4()
    pages = 0
    async with db.connection() as tx:
        await tx.execute("analyze")
        for _ in range(2):
            cursor = await tx.execute(
                "explain (analyze, buffers, format json) select * from job_claim(%s, 16, 16, 4, null, '{}', '{}', 16)",
                [worker],
            )
            plan = await explain(cursor)
            assert plan["Actual Rows"] == 16
            pages = page_count(plan)
    return pages


async def enqueue(db: Database, per_lane: int) -> None:
    async with db.transaction() as tx:
        await jobs.enqueue(tx, *(NewJob(Plain(n), f"lane {n % LANES}") for n in range(per_lane * LANES)))


async def test_a_claim_touches_no_more_pages_with_a_hundred_times_the_backlog(db: Database) -> None:
    """Promise 6: its cost does not grow with the queue."""
    await enqueue(db, 2)
    small = await claim_page_count(db)
    await enqueue(db, 200)
    large = await claim_page_count(db)
    assert large <= 3 * small, f"{small} pages with 400 queued, {large} with 40,400"


# What asks whether something is active, by package: its cost must not grow with the number of finished items.
ACTIVE_STATEMENTS = [
    ("gristmill.operations", "find_stuck_items", {"base": None, "limit": 100}),
    ("gristmill.integrity", "find_unannounced_bases", {"limit": 100}),
    ("gristmill.integrity", "find_underived_containers", {"base": None, "limit": 100}),
    ("gristmill.connectors", "has_pending_items", {"run": UUID(int=7)}),
]


async def add_finished_items(db: Database, count: int) -> None:
    """Add completed documents to the one folder of the one base; an active one is there already."""
    async with db.transaction() as tx:
        await tx.execute(
            "insert into item (base_id, parent_id, type, title, status, source_key, cause)"
            " select b.id, f.id, 'note', n::text, 'completed', n::text, %s"
            "   from base b join item f on f.base_id = b.id and f.type = 'directory', generate_series(1, %s) n",
            [UUID(int=7), count],
        )
    async with db.connection() as tx:
        await tx.execute("vacuum analyze item")


async def page_counts(db: Database, folder: UUID) -> dict[str, int]:
    """Pages that each statement about active items touches, and the functions that derive what follows from them."""
    counts: dict[str, int] = {}
    async with db.connection() as tx:
        for package, name, parameters in ACTIVE_STATEMENTS:
            statement = b"explain (analyze, buffers, format json) " + Queries(package)[name]
            counts[name] = page_count(await explain(await tx.execute(statement, parameters)))
        for function in (
            "container_derive_status(%s)",
            "base_mark_ready((select base_id from item where id = %s))",
        ):
            call = f"explain (analyze, buffers, format json) select {function}"
            await tx.execute(call.encode(), [folder])  # plans the function's statements
            counts[function] = page_count(await explain(await tx.execute(call.encode(), [folder])))
    return counts


async def explain(cursor: AsyncCursor[Any]) -> dict[str, Any]:
    """The plan of an explained statement."""
    row = await cursor.fetchone()
    assert row is not None
    return row[0][0]["Plan"]


def page_count(plan: dict[str, Any]) -> int:
    """How many pages a statement touched."""
    return plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]


async def test_finding_active_items_costs_no_more_beside_many_finished_ones(db: Database) -> None:
    """The partial indexes on `is_active` serve the statements that ask for it."""
    async with db.transaction() as tx:
        base = await insert_base(tx)
        folder = await insert_item(tx, base, None, "directory", "processing")
        await insert_item(tx, base, folder, "note", "reading")
    await add_finished_items(db, 100)
    few = await page_counts(db, folder)
    await add_finished_items(db, 20_000)
    many = await page_counts(db, folder)
    grown = {name: (few[name], many[name]) for name in few if many[name] > 2 * few[name] + 10}
    assert not grown, f"pages with 100 and with 20,100 finished items: {grown}"


# What a search, a write or a removal asks about one base, by package; `base`, `set` and `item` are added to the parameters.
SCOPE: dict[str, Any] = dict.fromkeys(
    (
        *("principals", "types", "under", "metadata", "created_after", "created_before"),
        *("updated_after", "updated_before", "condition"),
    )
)
BASE_STATEMENTS: list[tuple[str, str, dict[str, Any]]] = [
    ("gristmill.catalog", "find_base", {"principals": None, "org": None}),
    ("gristmill.catalog", "find_base_by_name", {"name": "b 0", "principals": None, "org": LOCAL_ORG}),
    ("gristmill.catalog", "find_sets_by_embedder", {"identity": "x", "limit": 16}),
    ("gristmill.catalog", "childless_items", {"limit": 500}),
    ("gristmill.catalog", "insert_base", NEW_BASE),
    ("gristmill.integrity", "find_unremoved_bases", {"limit": 100}),
    ("gristmill.search", "list_segments", {}),
    ("gristmill.search", "items_in_scope", SCOPE | {"limit": 100}),
    ("gristmill.search", "nearest_chunks", SCOPE | {"vector": "[1,0]", "limit": 10}),
    ("gristmill.search", "similarities", SCOPE | {"vector": "[1,0]", "nos": [1, 2, 3], "limit": 2}),
    ("gristmill.search", "visible_chunks", SCOPE | {"nos": [1, 2, 3]}),
    ("gristmill.search", "existing_indexes", {"version": 1}),
    ("gristmill.search", "drop_leftovers", {"limit": 100}),
    ("gristmill.search", "drop_set_chunks", {"after": 0, "limit": 10}),
    ("gristmill.search", "drop_set_segments", {"limit": 10}),
    ("gristmill.search", "drop_set_deleted_numbers", {"limit": 10}),
    ("gristmill.search", "bases_with_new_segments", {"after": 1_000_000}),
    ("gristmill.search", "next_bases", {"after": UUID(int=0), "limit": 10}),
    ("gristmill.catalog", "drop_base", {}),
]


async def add_bases(db: Database, first: int, count: int) -> None:
    """Add bases with an item, a segment and three chunks each."""
    async with db.transaction() as tx:
        await tx.execute(
            "with new_base as (insert into base (name, embedder, embedder_identity, dimensions)"
            "   select 'b ' || n, 'x', 'x', 2 from generate_series(%s::int, %s::int) n returning id),"
            " new_item as (insert into item (base_id, type, title, status, source_key, live_version)"
            "   select id, 'note', 'n', 'completed', 'n', 1 from new_base returning id, base_id),"
            " new_segment as (insert into segment (set_id, lexer_version, chunks, tokens, languages, nos, items, lengths,"
            "     signs) select id, 1, 3, 3, '{}', '', '', '', '' from new_base)"
            ' insert into chunk (set_id, item_id, version, index, text, text_hash, start, "end", embedding)'
            "   select base_id, id, 1, n, repeat('rye ', 100), gen_random_uuid(), 0, 1, '[1,0]'"
            "     from new_item, generate_series(0, 2) n",
            [first, first + count - 1],
        )
    async with db.connection() as tx:
        await tx.execute("vacuum analyze")


async def base_page_counts(db: Database, base: UUID, item: UUID) -> dict[str, int]:
    """Pages that each statement about one base touches; nothing that they change is kept."""
    counts: dict[str, int] = {}
    async with db.connection() as tx:
        for package, name, parameters in BASE_STATEMENTS:
            statement = b"explain (analyze, buffers, format json) " + Queries(package)[name]
            for _ in range(2):  # the first may have hint bits to set
                async with tx.transaction(force_rollback=True):
                    common = {"id": base, "base": base, "set": base, "item": item, "org": None}
                    cursor = await tx.execute(statement, {**common, **parameters})
                    counts[name] = page_count(await explain(cursor))
    return counts


async def test_the_statements_about_one_base_cost_no_more_beside_many_bases(db: Database) -> None:
    """S2-36, promise 6: no statement reads the rows of all bases."""
    await add_bases(db, 0, 100)
    async with db.connection() as tx:
        row = await (
            await tx.execute("select base_id, id from item order by id offset 50 limit 1")
        ).fetchone()
    assert row is not None
    few = await base_page_counts(db, *row)
    await add_bases(db, 100, 5_000)
    many = await base_page_counts(db, *row)
    grown = {name: (few[name], many[name]) for name in few if many[name] > 2 * few[name] + 12}
    assert not grown, f"pages beside 100 and beside 5,100 bases: {grown}"


async def test_the_checks_of_a_search_cost_no_more_before_the_tables_are_analysed(db: Database) -> None:
    """After a large base was written, searches don't wait for statistics; also those of callers who see little."""
    async with db.transaction() as tx:
        await tx.execute("alter table chunk set (autovacuum_enabled = off)")  # it would come in between
        await tx.execute("alter table item set (autovacuum_enabled = off)")
        base = await insert_base(tx)
        await tx.execute(
            "with new_item as (insert into item (base_id, type, title, status, source_key, live_version, acl)"
            "   select %s, 'note', 'n', 'completed', n::text, 1,"
            "          case when n %% 1000 = 0 then '{few,many}'::text[] when n %% 10 = 0 then '{many}' else '{}' end"
            "     from generate_series(1, 3000) n returning id, base_id)"
            ' insert into chunk (set_id, item_id, version, index, text, text_hash, start, "end", embedding)'
            "   select base_id, id, 1, n, repeat('rye ', 100), gen_random_uuid(), 0, 1, '[1,0]'"
            "     from new_item, generate_series(0, 9) n",
            [base],
        )
    before = await gate_page_counts(db, base)
    async with db.connection() as tx:
        await tx.execute("vacuum analyze")
    after = await gate_page_counts(db, base)
    grown = {name: (before[name], after[name]) for name in after if before[name] > 2 * after[name] + 20}
    assert not grown, f"pages before and after the tables were analysed: {grown}"


async def gate_page_counts(db: Database, base: UUID) -> dict[str, int]:
    """Pages that the checks of a search touch, by statement and caller."""
    counts: dict[str, int] = {}
    queries = Queries("gristmill.search")
    async with db.snapshot() as tx:
        row = await (
            await tx.execute("select array_agg(no order by no) from chunk where set_id = %s", [base])
        ).fetchone()
        assert row is not None
        nos = row[0][::150]
        for principals in (None, ["few"], ["many"], ["nobody"]):
            scope = SCOPE | {"base": base, "set": base, "principals": principals, "vector": "[1,0]"}
            for name in ("similarities", "visible_chunk_ids", "visible_chunks", "gate_chunks"):
                statement = b"explain (analyze, buffers, format json) " + queries[name]
                for _ in range(2):  # the first may have hint bits to set
                    cursor = await tx.execute(statement, scope | {"nos": nos, "limit": 100})
                    counts[f"{name} {principals}"] = page_count(await explain(cursor))
    return counts


async def test_an_item_is_active_exactly_in_the_statuses_that_are_not_final(db: Database) -> None:
    """The column and `lifecycle.py` agree, so that a new status is known to both."""
    async with db.transaction() as tx:
        base = await insert_base(tx)
        for status in ItemStatus:
            await insert_item(tx, base, None, "note", status)
        rows = await (await tx.execute("select status, is_active from item")).fetchall()
    assert dict(rows) == {status: status not in {*TERMINAL, ItemStatus.DELETING} for status in ItemStatus}


async def insert_base(tx: Tx) -> UUID:
    """An empty base."""
    row = await (
        await tx.execute(
            "insert into base (name, embedder, embedder_identity, dimensions) values ('b', 'x', 'x', 2) returning id"
        )
    ).fetchone()
    assert row is not None
    return row[0]


async def insert_item(tx: Tx, base: UUID, parent: UUID | None, item_type: str, status: str) -> UUID:
    """An item in a status, listed if it is a container."""
    row = await (
        await tx.execute(
            "insert into item (base_id, parent_id, type, title, status, source_key, expanded_version)"
            " values (%s, %s, %s, %s, %s, %s, 1) returning id",
            [base, parent, item_type, status, status, status],
        )
    ).fetchone()
    assert row is not None
    return row[0]


async def add_tool_groups(db: Database, groups: int, members: int) -> None:
    """Add groups of a tool with members, half of them by accounts; one person is in all of them, in both ways."""
    async with db.transaction() as tx:
        await tx.execute(
            "with new_connector as (insert into connector (name, type, config, credentials, schedule, acl_schedule)"
            "   select uuidv7()::text, 'x', '{}', '', '', '' returning id, org_id),"
            " people as (insert into connector_identity (connector_id, user_id, email)"
            "   select id, 'u' || n, case when n = 1 then 'ann@example.org' else n || '@mapped.org' end"
            "     from new_connector, generate_series(1, %(members)s) n),"
            " new_group as (insert into connector_group (org_id, connector_id, key, name, complete)"
            "   select c.org_id, c.id, n::text, 'g', true from new_connector c, generate_series(1, %(groups)s) n"
            "   returning id)"
            " insert into connector_group_member (group_id, email, user_id)"
            "   select g.id, case when n %% 2 = 0 then coalesce(nullif(n || '@b.org', '2@b.org'), 'ann@example.org') end,"
            "          case when n %% 2 = 1 then 'u' || n end"
            "     from new_group g, generate_series(1, %(members)s) n",
            {"groups": groups, "members": members},
        )
    async with db.connection() as tx:
        await tx.execute("vacuum analyze")


async def tool_group_plans(db: Database) -> dict[str, tuple[int, dict[str, Any]]]:
    """How many groups a person has, and the plan that finds them: alone, and with a key and a user that have the address."""
    async with db.transaction() as tx:
        key, secret = await insert_key(tx, LOCAL_ORG, NewApiKey("ann", "reader", email="Ann@example.org"))
        user = await users.insert_user(tx, LOCAL_ORG, UserFields("ann@example.org", "Ann"))
    plans: dict[str, tuple[int, dict[str, Any]]] = {}
    async with db.connection() as tx:
        for name, parameters in (
            ("find_tool_groups", {"org": LOCAL_ORG, "email": "Ann@example.org"}),
            ("find_key_by_hash", {"hash": secret_hash(secret)}),
            ("find_active_user", {"id": user.id}),
        ):
            statement = Queries("gristmill.identity")[name]
            rows = await (await tx.execute(statement, parameters)).fetchall()
            found = len(rows) if name == "find_tool_groups" else len(rows[0][-1])
            for _ in range(2):  # the first may have hint bits to set
                cursor = await tx.execute(b"explain (analyze, buffers, format json) " + statement, parameters)
                plans[name] = (found, await explain(cursor))
    async with db.transaction() as tx:
        assert await delete_key(tx, LOCAL_ORG, key.id)
        assert await users.delete_user(tx, LOCAL_ORG, user.id)
    return plans


def plan_nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """All nodes of a plan."""
    yield plan
    for child in plan.get("Plans", []):
        yield from plan_nodes(child)


def scans_people(node: dict[str, Any]) -> bool:
    """Whether a node reads all members of groups, or all accounts."""
    tables = ("connector_group_member", "connector_identity")
    return node["Node Type"] == "Seq Scan" and node.get("Relation Name") in tables


async def test_the_groups_of_a_person_cost_no_more_beside_large_groups(db: Database) -> None:
    """Promise 6: who belongs to which group of a tool is found by indexes, however many members the groups have."""
    await add_tool_groups(db, groups=2, members=100)
    few = await tool_group_plans(db)
    await add_tool_groups(db, groups=1, members=50_000)
    many = await tool_group_plans(db)
    assert [found for found, _ in few.values()] == [2, 2, 2]
    assert [found for found, _ in many.values()] == [3, 3, 3]
    for name, (_, plan) in many.items():
        assert not any(scans_people(node) for node in plan_nodes(plan)), name
        assert page_count(plan) <= 2 * page_count(few[name][1]) + 20, name
        print(f"{name}: {page_count(few[name][1])} pages, beside 50,000 members {page_count(plan)}")
