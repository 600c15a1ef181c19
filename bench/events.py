"""Cost and guarantees of events: `python -m bench.events [--only stream,reconcile,chaos]`.

    stream      a server with 200 streams: their memory, and the delay of item updates while 500 items a second change;
                first with 10 clients that watch the changing base and 190 that don't, then with all 200 watching
    reconcile   a light and a thorough pass over many idle items
    chaos       1,000 documents while workers, the server and a webhook's receiver are killed: what a poller, a stream and
                a webhook receive

Prints every figure and every requirement. The exit code is 1 when a requirement does not hold.
"""

import argparse
import asyncio
import contextlib
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import psycopg

from bench.memory import processes_below, pss_mb
from gristmill.db import Database, local_server
from gristmill.db.migrate import migrate
from gristmill.integrity.reconcile import Reconciler
from gristmill.sources.blobs import BlobStore
from tests.crash.event_consumers import (
    Daemon,
    aggregate_errors,
    all_events,
    first_seen,
    free_port,
    run,
    running_system,
)
from tests.gristmill_process import environment

CLIENTS, WATCHERS, RATE, SECONDS = 200, 10, 500, 10
_CACHE = Path(tempfile.gettempdir()) / "gristmill-bench-cache"


class RequirementChecks:
    """Prints requirements, and remembers whether all of them hold."""

    def __init__(self) -> None:
        self.all_hold = True

    def check(self, requirement: str, holds: bool) -> None:
        """Print one requirement."""
        self.all_hold = self.all_hold and holds
        print(f"  {'holds' if holds else 'DOES NOT HOLD'}: {requirement}")


# ── stream ───────────────────────────────────────────────────────────────────────────────────────────────


class SseClient:
    """One stream, read as cheaply as possible, so that the server is measured."""

    def __init__(self, *, timing: bool) -> None:
        self.delays: list[float] = []
        self.bytes = 0
        self.connected = asyncio.Event()
        self._timing = (
            timing  # otherwise it only discards data: parsing a million lines would be measured too
        )

    async def follow(self, url: str, query: str) -> None:
        """Follow until cancelled; the title of an item is the time of its change."""
        address = urlsplit(url)
        reader, writer = await asyncio.open_connection(address.hostname, address.port, limit=2**22)
        writer.write(f"GET /api/events/stream?{query} HTTP/1.1\r\nHost: {address.netloc}\r\n\r\n".encode())
        try:
            while not self._timing and (data := await reader.read(2**20)):
                self.connected.set()
                self.bytes += len(data)
            while line := await reader.readline():
                self.bytes += len(line)
                if line.startswith(b"retry:"):
                    self.connected.set()
                elif line.startswith(b"data: ") and b'"title":"at ' in line:
                    at = line.partition(b'"title":"at ')[2].partition(b'"')[0]
                    self.delays.append(time.time() - float(at))
        finally:
            writer.close()


def server_pid(supervisor: int) -> int:
    """The process that answers requests, below the supervisor."""
    names = {Path(f"/proc/{pid}/comm").read_text().strip(): pid for pid in processes_below(supervisor)}
    return names["gm-server-1"]


async def change_items(url: str, base: str) -> None:
    """Change `RATE` items of a base a second, in 20 transactions a second."""
    batch_size = RATE // 20
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        rows = await (await connection.execute("select id from item where base_id = %s", [base])).fetchall()
        ids = [row[0] for row in rows]
        started = time.monotonic()
        for tick in range(SECONDS * 20):
            batch = [ids[(tick * batch_size + n) % len(ids)] for n in range(batch_size)]
            await connection.execute(
                "update item set title = 'at ' || %s, status = 'completed', updated_at = clock_now()"
                " where id = any (%s)",
                [f"{time.time():.4f}", batch],
            )
            await asyncio.sleep(max(0.0, started + (tick + 1) / 20 - time.monotonic()))


async def measure_stream(checks: RequirementChecks, folder: Path) -> None:
    """Measure the memory of idle streams, and the delay of updates."""
    server = local_server.start(folder / "db")
    await migrate(server.url)
    env = environment(folder / "data", _CACHE, database_url=server.url, log_level="warning")
    port = free_port()
    daemon = Daemon(["gristmill", "serve", "--port", str(port)], env, folder / "log")
    url = f"http://127.0.0.1:{port}"
    try:
        await daemon.start()
        async with httpx.AsyncClient(base_url=url, timeout=60) as http:
            bases = [
                (await http.post("/api/knowledge-bases", json={"name": name})).json()["id"] for name in "ab"
            ]
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute(
                "insert into item (base_id, type, title, status, source_key, live_version)"
                " select %s, 'note', 'note', 'completed', n::text, 1 from generate_series(1, 5000) n",
                [bases[0]],
            )
        await asyncio.sleep(5)  # until the embedder is loaded: its memory does not count
        for watching in (WATCHERS, CLIENTS):
            await _measure_round(checks, daemon, server.url, url, bases, watching)
    finally:
        daemon.kill()
        server.close()


async def _measure_round(
    checks: RequirementChecks, daemon: Daemon, database: str, url: str, bases: list[str], watching: int
) -> None:
    assert daemon.process is not None
    server = server_pid(daemon.process.pid)
    before = pss_mb(server)
    clients = [SseClient(timing=n < WATCHERS) for n in range(CLIENTS)]
    tasks = [
        asyncio.create_task(client.follow(url, f"types=item&baseId={bases[0 if n < watching else 1]}"))
        for n, client in enumerate(clients)
    ]
    await asyncio.gather(*(client.connected.wait() for client in clients))
    await asyncio.sleep(1)
    idle = pss_mb(server)
    cpu = _cpu_seconds(server)
    await change_items(database, bases[0])
    await asyncio.sleep(1)
    busy, cpu = pss_mb(server), _cpu_seconds(server) - cpu
    delays = sorted(delay for client in clients for delay in client.delays)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    print(f"{CLIENTS} streams, {watching} of them watch what changes; {RATE} items/s for {SECONDS} s")
    print(f"  memory: {before:.0f} MB before, +{idle - before:.1f} MB idle, +{busy - before:.1f} MB after")
    print(
        f"  sent {sum(client.bytes for client in clients) / 2**20 / SECONDS:.0f} MB/s; of {WATCHERS}, late by {statistics.median(delays) * 1000:.0f} ms median,"
        f" {delays[int(len(delays) * 0.95)] * 1000:.0f} ms p95, {delays[-1] * 1000:.0f} ms at most;"
        f" {100 * cpu / SECONDS:.0f} % of a core"
    )
    checks.check(f"{CLIENTS} idle streams cost less than 150 MB", idle - before < 150)
    if watching == WATCHERS:
        checks.check("updates come within 500 ms (p95)", delays[int(len(delays) * 0.95)] < 0.5)
    expected = WATCHERS * RATE * SECONDS * 0.9  # an item that changes again within 300 ms is sent once
    checks.check("every watcher received the updates", len(delays) > expected)


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# ── reconcile ────────────────────────────────────────────────────────────────────────────────────────────

FILL = (
    "insert into base (name, embedder, embedder_identity, dimensions, ingested) values ('many', 'x', 'x', 2, true)",
    (
        "insert into item (base_id, type, title, status, source_key, expanded_version)"
        " select id, 'directory', n::text, 'completed', n::text, 1 from base, generate_series(1, %(items)s / 100) n"
    ),
    (
        "insert into item (base_id, parent_id, type, title, status, source_key, live_version, chunk_count)"
        " select d.base_id, d.id, 'note', n::text, 'completed', n::text, 1, 2"
        " from item d, generate_series(1, 100) n where d.type = 'directory'"
    ),
    (
        "insert into content (hash, characters, created_at)"
        " select sha256(id::text::bytea), 1, now() - interval '1 day' from item where type = 'note'"
    ),
    (
        "insert into content_part (content_hash, start, text)"
        " select sha256(id::text::bytea), 0, 'x' from item where type = 'note'"
    ),
    (
        "insert into item_version (item_id, version, content_hash)"
        " select id, 1, sha256(id::text::bytea) from item where type = 'note'"
    ),
    (
        'insert into chunk (set_id, item_id, version, index, text, start, "end", embedding)'
        " select i.base_id, i.id, 1, n, 'x', 0, 1, '[1,2]' from item i, generate_series(0, 1) n where i.type = 'note'"
    ),
    "vacuum analyze",
)


async def measure_reconcile(checks: RequirementChecks, folder: Path, items: int) -> None:
    """Measure passes that find nothing to repair."""
    server = local_server.start(folder / "db")
    await migrate(server.url)
    db = Database(server.url)
    await db.open()
    try:
        async with db.connection() as tx:
            for statement in FILL:
                await tx.execute(statement.encode(), {"items": items} if "%(" in statement else None)
        reconciler = Reconciler(db, BlobStore.open(None, folder), timedelta(days=30))
        print(f"a pass over {items:,} documents with two chunks each, in folders of 100")
        for thorough in (False, True):
            durations: list[float] = []
            for _ in range(3):
                started = time.perf_counter()
                repairs = await reconciler.run_pass(thorough=thorough)
                durations.append(time.perf_counter() - started)
                checks.check("it finds nothing to repair", sum(repairs.values()) == 0)
            print(
                f"  {'thorough' if thorough else 'light'}: {statistics.median(durations):.2f} s (median of 3)"
            )
    finally:
        await db.close()
        server.close()


# ── chaos ────────────────────────────────────────────────────────────────────────────────────────────────


async def measure_chaos(checks: RequirementChecks, folder: Path, documents: int, kills: int) -> None:
    """Kill processes on every side."""
    server = local_server.start(folder / "db")
    try:
        env = environment(
            folder / "data",
            _CACHE,
            database_url=server.url,
            lease="2",
            allow_private_addresses="true",
            log_level="warning",
        )
        started = time.perf_counter()
        async with running_system(env, folder, workers=2) as field:
            await run(
                field,
                documents=documents,
                bases=5,
                kills=kills,
                pause=timedelta(seconds=2),
                seed=documents,
                patience=900,
            )
            elapsed = time.perf_counter() - started
            events = await all_events(field)
            places = [int(event["id"]) for event in events]
            events_received = field.received_events()
            kills_by_role = [
                field.server.kills,
                field.receiver.kills,
                sum(worker.kills for worker in field.workers),
            ]
            print(
                f"{documents:,} documents, {len(events):,} events in {elapsed:.0f} s; killed: server {kills_by_role[0]},"
                f" receiver {kills_by_role[1]}, workers {kills_by_role[2]}; the stream connected {field.reconnects:,} times;"
                f" the webhook was sent {len(events_received):,} requests"
            )
            checks.check("positions have no gaps", places == list(range(1, len(places) + 1)))
            for name, events_seen in (
                ("poller", field.polled_events),
                ("stream", field.streamed_events),
                ("webhook", events_received),
            ):
                checks.check(f"the {name} saw every event, in order", first_seen(events_seen) == places)
            violations = aggregate_errors(events)
            checks.check("aggregates came exactly once, and never early", not violations)
            print("".join(f"    {violation}\n" for violation in violations[:10]), end="")
            invariants = await field.request("GET", "/api/health/invariants")
            checks.check("the invariants hold", invariants == {"violations": []})
        db = Database(server.url)
        await db.open()
        repairs = await Reconciler(db, BlobStore.open(None, folder), timedelta(days=30)).run_pass()
        await db.close()
        checks.check(f"the reconciler finds nothing: {json.dumps(repairs)}", sum(repairs.values()) == 0)
    finally:
        server.close()


def main() -> None:
    """Parse the arguments, and run the measurements."""
    parser = argparse.ArgumentParser(prog="python -m bench.events", description=__doc__)
    parser.add_argument("--only", default="stream,reconcile,chaos", help="measurements, with commas")
    parser.add_argument("--items", type=int, default=200_000, help="items that the reconciler checks")
    parser.add_argument("--documents", type=int, default=1_000, help="for chaos")
    parser.add_argument("--kills", type=int, default=15, help="for chaos")
    options = parser.parse_args()
    measurements: dict[str, Callable[[RequirementChecks, Path], Awaitable[None]]] = {
        "stream": measure_stream,
        "reconcile": lambda required, folder: measure_reconcile(required, folder, int(options.items)),
        "chaos": lambda required, folder: measure_chaos(
            required, folder, int(options.documents), int(options.kills)
        ),
    }
    checks = RequirementChecks()
    for name in str(options.only).split(","):
        folder = Path(tempfile.mkdtemp(prefix="gristmill-bench-"))
        folder.chmod(0o755)  # as root, PostgreSQL runs as another user
        try:
            asyncio.run(_run(measurements[name], checks, folder))
        finally:
            with contextlib.suppress(OSError):
                shutil.rmtree(folder)
    sys.exit(0 if checks.all_hold else 1)


async def _run(
    measure: Callable[[RequirementChecks, Path], Awaitable[None]], checks: RequirementChecks, folder: Path
) -> None:
    await measure(checks, folder)


if __name__ == "__main__":
    main()
