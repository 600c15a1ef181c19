"""A folder of ten thousand files: streamed in, searchable from the first, and gone without a trace while it runs.

The bounds are wide, for machines that do other things too; `-rP` shows the figures.
"""

import statistics
import time
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from gristmill import app, faults
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
    """How much this process has grown at the most, in MB, as far as it was looked at."""

    def __init__(self) -> None:
        self._process = psutil.Process()
        self._before = self._process.memory_info().rss
        self.most = 0.0

    def look(self) -> None:
        self.most = max(self.most, (self._process.memory_info().rss - self._before) / 1e6)


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
    """Issue 4, S4-05, S4-08, S4-69, promise 3."""
    base = await make_base(http)
    items = f"/api/knowledge-bases/{base}/items"
    memory = Memory()
    with faults.watch("expand.filed", hold=True) as held:
        root = await add_folder(http, base, many)
        await held.passed.wait()

        async def first_are_found() -> bool:
            return len(await search(http, base, "rye", mode="text")) == 10

        await wait_until(first_are_found)
        listed = await count(mill, "select count(*) from item where type = 'file'")
        assert 0 < listed < FILES, "all was listed before the first was searchable"
        began = time.perf_counter()

    async def all_listed() -> bool:
        memory.look()
        return await count(mill, "select expanded_version from item where type = 'directory'") == 1

    await wait_until(all_listed, limit=60)
    expanded = time.perf_counter() - began
    indexed = await count(mill, "select count(*) from item where status = 'completed'")
    assert indexed < FILES, "it was indexed too soon to be deleted while it runs"

    began = time.perf_counter()
    gone = await http.delete(f"/api/knowledge-items/{root}")
    answered = time.perf_counter() - began
    assert (await http.get(items, params={"parentId": "*"})).json()["items"] == []
    assert await search(http, base, "rye") == []

    async def stopped() -> bool:
        return not await count(
            mill, "select count(*) from job where state = 'running' and kind <> 'delete_subtree'"
        )

    async def nothing_waits() -> bool:
        return not await count(mill, "select count(*) from job where kind <> 'delete_subtree'")

    await wait_until(stopped, every=0.005)
    stop = time.perf_counter() - began
    await wait_until(nothing_waits, every=0.005)
    drained = time.perf_counter() - began
    receipt = (await wait_for_job(http, gone.json()["jobId"]))["result"]
    cleaned = time.perf_counter() - began
    for table in ("item", "item_version", "chunk", "content", "blob", "pending_blob_name", "job"):
        assert await count(mill, f"select count(*) from {table}".encode()) == 0, table
    assert receipt["items"] == FILES + 1
    print(
        f"\nexpansion {(FILES - listed) / expanded:,.0f} files/s beside indexing, memory +{memory.most:.0f} MB;"
        f" with {indexed:,} indexed: delete answered in {answered:.2f} s, running work stopped after {stop:.2f} s,"
        f" queue empty after {drained:.2f} s, all gone after {cleaned:.2f} s"
    )
    assert memory.most < 60
    assert stop < 5  # 0.5 s on an idle machine
    await assert_healthy(http)


async def test_work_that_fills_every_slot_stops_when_its_folder_is_deleted(
    http: httpx.AsyncClient, mill: app.Gristmill, tmp_path: Path
) -> None:
    """S4-05, S4-12: the deletion needs a slot itself, which just these jobs hold; S4-40."""
    for number in range(80):
        (tmp_path / f"docs{number % 2}").mkdir(exist_ok=True)
        (tmp_path / f"docs{number % 2}/{number}.md").write_text(f"Sack {number}.")
    base = await make_base(http)
    with faults.watch("index.opened", hold=True) as held:
        root = await add_folder(http, base, tmp_path / "docs0")

        async def full() -> bool:
            return held.count >= mill.settings.worker_slots - 1

        await wait_until(full)
        began = time.perf_counter()
        gone = (await http.delete(f"/api/knowledge-items/{root}")).json()
        await wait_for_job(http, gone["jobId"])
        took = time.perf_counter() - began
        assert await count(mill, "select count(*) from job") == 0
    print(f"\nstopped and gone after {took:.2f} s")
    assert took < 5  # 0.3 s on an idle machine


@pytest.mark.parametrize("how", ["by path", "after upload"])
async def test_a_hundred_files_in_one_call_are_accepted_at_once(
    hand: ManualWorker, base: Base, many: Path, how: str
) -> None:
    """Issue 4, S4-08: under 300 ms on an idle machine; the bound here is wider, for a busy one."""
    took: list[float] = []
    for number in range(5):
        paths = [many / f"{place:05}.md" for place in range(100 * number, 100 * number + 100)]
        if how == "by path":
            entries = [file_to_add(hand, path) for path in paths]
        else:
            entries = [await uploaded(hand, path) for path in paths]
        began = time.perf_counter()
        added = await add.add(hand.db, base.id, entries, UNLIMITED)
        took.append(time.perf_counter() - began)
        assert len(added.created) == 100
    median = statistics.median(took)
    print(f"\n100 files {how}: median {median * 1000:.0f} ms, {[f'{t * 1000:.0f}' for t in took]}")
    assert median < 1


async def uploaded(hand: ManualWorker, path: Path) -> add.ItemToAdd:
    blob = await store_upload(hand.db, hand.originals.blobs, lambda: byte_stream(path.name.encode()))
    return upload_to_add(path.name, blob.hash, blob.size)


@pytest.mark.parametrize("titles", ["all different", "all the same"])
async def test_ten_thousand_notes_are_added_in_one_call(hand: ManualWorker, base: Base, titles: str) -> None:
    """Issue 4; equal titles are numbered, each once."""
    same = titles == "all the same"
    entries = [note_to_add("n" if same else f"n{n}", f"rye {n}") for n in range(FILES)]
    began = time.perf_counter()
    added = await add.add(hand.db, base.id, entries, UNLIMITED)
    took = time.perf_counter() - began
    print(f"\n{FILES:,} notes, {titles}: {took:.2f} s")
    assert len({item.title for item in added.created}) == FILES
    assert await hand.value("select count(*) from job") == FILES
    one = await add.add(hand.db, base.id, [note_to_add("n", "rye")], UNLIMITED)
    assert one.created[0].title == (f"n ({FILES + 1})" if same else "n")
    assert took < 20
