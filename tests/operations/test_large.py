"""A folder of ten thousand files: streamed in, searchable from the first file on, and deleted without a trace while it runs.

How long it takes is a matter of the machine: `python -m bench.catalog` measures it. Here work is counted.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil
import psycopg
import pytest

from gristmill import app, faults, stage_gate
from gristmill.catalog import Base
from gristmill.operations import add
from gristmill.operations.uploads import store_upload
from tests.api_calls import assert_healthy, make_base, search, wait_for_job
from tests.operations.manual_worker import (
    UNLIMITED,
    ManualWorker,
    byte_stream,
    file_to_add,
    note_to_add,
    upload_to_add,
)
from tests.wait_until import wait_until

pytestmark = pytest.mark.slow

FILES = 10_000


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of many small files."""
    folder = tmp_path_factory.mktemp("many") / "many"
    folder.mkdir()
    for number in range(FILES):
        (folder / f"{number:05}.md").write_text(f"Sack {number} of rye.")
    return folder


class Memory:
    """The largest measured growth of this process, in MB."""

    def __init__(self) -> None:
        self._process = psutil.Process()
        self._before = self._process.memory_info().rss
        self.peak = 0.0

    def measure(self) -> None:
        self.peak = max(self.peak, (self._process.memory_info().rss - self._before) / 1e6)


async def count(mill: app.Gristmill, statement: Any) -> int:
    async with mill.db.connection() as tx:
        row = await (await tx.execute(statement)).fetchone()
    assert row is not None
    return row[0]


async def add_folder(http: httpx.AsyncClient, base: str, path: Path) -> str:
    answer = await http.post(
        f"/api/knowledge-bases/{base}/items", json={"items": [{"type": "directory", "path": str(path)}]}
    )
    return answer.json()["created"][0]["id"]


async def test_a_large_folder_is_streamed_in_and_deleted_while_it_runs(
    http: httpx.AsyncClient, mill: app.Gristmill, many: Path
) -> None:
    """S4-05, S4-08, S4-69, promise 3."""
    base = await make_base(http)
    items = f"/api/knowledge-bases/{base}/items"
    memory = Memory()
    with faults.watch("expand.filed", hold=True) as fault:
        root = await add_folder(http, base, many)
        await fault.passed.wait()

        async def first_are_found() -> bool:
            return len(await search(http, base, "rye", mode="text")) == 10

        await wait_until(first_are_found)
        listed_count = await count(mill, "select count(*) from item where type = 'file'")
        assert 0 < listed_count < FILES, "all was listed before the first was searchable"

    async def is_all_listed() -> bool:
        memory.measure()
        return await count(mill, "select expanded_version from item where type = 'directory'") == 1

    await wait_until(is_all_listed, limit=60)
    indexed_count = await count(mill, "select count(*) from item where status = 'completed'")
    assert indexed_count < FILES, "it was indexed too soon to be deleted while it runs"

    response = await http.delete(f"/api/knowledge-items/{root}")
    assert (await http.get(items, params={"parentId": "*"})).json()["items"] == []
    assert await search(http, base, "rye") == []
    with faults.watch("index.opened") as index_fault:
        receipt = (await wait_for_job(http, response.json()["jobId"]))["result"]
    assert index_fault.count <= mill.settings.worker_slots, "its files were read although it was deleted"

    for table in ("item", "item_version", "chunk", "content", "blob", "pending_blob_name", "job"):
        assert await count(mill, f"select count(*) from {table}".encode()) == 0, table
    assert receipt["items"] == FILES + 1
    assert memory.peak < 60
    await assert_healthy(http)


async def test_work_that_fills_every_slot_stops_when_its_folder_is_deleted(
    http: httpx.AsyncClient, mill: app.Gristmill, tmp_path: Path
) -> None:
    """S4-05, S4-12: the deletion needs a slot, and these jobs hold all of them; S4-40."""
    for number in range(2 * mill.settings.worker_slots):
        (tmp_path / f"docs{number % 2}").mkdir(exist_ok=True)
        (tmp_path / f"docs{number % 2}/{number}.md").write_text(f"Sack {number}.")
    base = await make_base(http)
    with faults.watch("index.opened", hold=True) as fault:
        root = await add_folder(http, base, tmp_path / "docs0")

        async def is_full() -> bool:
            general_slots = mill.settings.worker_slots - 1
            return fault.count >= stage_gate.room(0, general_slots, mill.settings.base_share)

        await wait_until(is_full)
        deletion = (await http.delete(f"/api/knowledge-items/{root}")).json()
        await wait_for_job(http, deletion["jobId"])
        assert not fault.hold.is_set()
        assert await count(mill, "select count(*) from job") == 0


@asynccontextmanager
async def record_statements(monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[list[object]]:
    """The statements that this process sends."""
    statements: list[object] = []
    execute = psycopg.AsyncCursor[Any].execute

    async def record(cursor: psycopg.AsyncCursor[Any], query: Any, *arguments: Any, **options: Any) -> Any:
        statements.append(query)
        return await execute(cursor, query, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(psycopg.AsyncCursor, "execute", record)
        yield statements


@pytest.mark.parametrize("how", ["by path", "after upload"])
async def test_a_hundred_files_cost_as_many_statements_as_two(
    worker: ManualWorker, base: Base, many: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S4-08: a call with many files is answered at once, because it needs no more round trips."""
    costs: list[int] = []
    for numbers in (range(2), range(2, 102)):
        paths = [many / f"{number:05}.md" for number in numbers]
        if how == "by path":
            entries = [file_to_add(path) for path in paths]
        else:
            entries = [await stored_upload(worker, path) for path in paths]
        async with record_statements(monkeypatch) as statements:
            result = await add.add(worker.db, base.id, entries, UNLIMITED)
        assert len(result.created) == len(paths)
        costs.append(len(statements))
    assert 0 < costs[1] == costs[0]


async def stored_upload(worker: ManualWorker, path: Path) -> add.ItemToAdd:
    blob = await store_upload(worker.db, worker.originals.blobs, lambda: byte_stream(path.name.encode()))
    return upload_to_add(path.name, blob.hash, blob.size)


@pytest.mark.parametrize(
    "titles", ["all different", pytest.param("all the same", marks=pytest.mark.thorough)]
)
async def test_ten_thousand_notes_are_added_in_one_call(
    worker: ManualWorker, base: Base, titles: str
) -> None:
    """Equal titles are numbered, each once."""
    same = titles == "all the same"
    entries = [note_to_add("n" if same else f"n{n}", f"rye {n}") for n in range(FILES)]
    result = await add.add(worker.db, base.id, entries, UNLIMITED)
    assert len({item.title for item in result.created}) == FILES
    assert await worker.value("select count(*) from job") == FILES
    second_result = await add.add(worker.db, base.id, [note_to_add("n", "rye")], UNLIMITED)
    assert second_result.created[0].title == (f"n ({FILES + 1})" if same else "n")
