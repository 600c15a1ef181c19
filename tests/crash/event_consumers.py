"""A system whose processes are killed, and three consumers of its events: a poller with a cursor, a stream, a webhook.

Workers, the server and the receiver are killed at random while documents are added to several bases. Afterwards
each of the three must have seen every event, in order, and each event must have been true.
"""

import asyncio
import contextlib
import itertools
import json
import random
from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx

from gristmill import clock
from tests import process_template
from tests.events.sse import stream
from tests.free_port import free_port
from tests.process_template import Process
from tests.wait_until import wait_until

EventJson = dict[str, Any]


@dataclass
class Daemon:
    """A process that is restarted whenever it was killed."""

    arguments: list[str]
    env: Mapping[str, str]
    log: Path
    kills: int = 0
    process: Process | None = None

    async def start(self) -> str:
        """Start it; the line that it prints when it is ready."""
        line = await asyncio.to_thread(self._start)
        assert line, self.log.read_text()[-2000:]
        return line

    def _start(self) -> str:
        with self.log.open("a") as stderr:
            self.process = process_template.start(self.arguments, self.env, stderr=stderr)
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def kill(self) -> None:
        """Kill it with -9, and wait for its end."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(120)
            if self.process.stdout is not None:
                self.process.stdout.close()
            self.process = None

    async def restart_after_kill(self) -> None:
        """Kill it and start it again."""
        self.kill()
        self.kills += 1
        await self.start()


@dataclass
class System:
    """The running processes, and the events that each consumer has seen."""

    url: str
    server: Daemon
    workers: list[Daemon]
    receiver: Daemon
    inbox: Path
    http: httpx.AsyncClient
    polled_events: list[EventJson] = field(default_factory=list[EventJson])
    streamed_events: list[EventJson] = field(default_factory=list[EventJson])
    reconnects: int = 0

    async def request(self, method: str, path: str, **more: Any) -> Any:
        """The response of the server, retried while it is down."""

        async def attempt() -> httpx.Response | None:
            with contextlib.suppress(httpx.HTTPError):
                response = await self.http.request(method, path, **more)
                return response if response.status_code < 500 else None
            return None

        response = await wait_until(attempt, limit=60, every=0.05)
        assert response.is_success, response.text
        return response.json()

    async def poll(self) -> None:
        """Read with a cursor, forever."""
        cursor = "0"
        while True:
            page = await self.request("GET", "/api/events", params={"after": cursor, "limit": 50})
            self.polled_events += page["items"]
            cursor = page["nextCursor"]
            if len(page["items"]) < 50:
                await clock.pause(timedelta(milliseconds=50))

    async def follow(self, rng: random.Random) -> None:
        """Follow the stream and disconnect now and then, forever."""
        last: str | None = "0"
        while True:
            with contextlib.suppress(httpx.HTTPError, AssertionError):  # AssertionError: 503 while it stops
                async with stream(self.url, last_id=last) as connection:
                    remaining = rng.randint(5, 60)
                    async for frame in connection.frames():
                        last = connection.last_id
                        if frame.id is not None:
                            self.streamed_events.append(frame.data)
                            remaining -= 1
                        if remaining == 0:
                            break
            self.reconnects += 1
            await clock.pause(timedelta(milliseconds=20))

    def received_events(self) -> list[EventJson]:
        """The events that the webhook's receiver has received."""
        return [json.loads(line) for line in self.inbox.read_text().splitlines()]


@asynccontextmanager
async def running_system(env: Mapping[str, str], folder: Path, *, workers: int) -> AsyncGenerator[System]:
    """A server, workers and a receiver, running; all of them killed at the end."""
    port, hook = free_port(), free_port()
    log, inbox = folder / "log", folder / "inbox"
    inbox.touch()
    server = Daemon(["gristmill", "serve", "--port", str(port)], env, log)
    workers_running = [Daemon(["gristmill", "worker"], env, log) for _ in range(workers)]
    receiver = Daemon(["tests.events.receiver", str(hook), str(inbox)], env, log)
    url = f"http://127.0.0.1:{port}"
    async with httpx.AsyncClient(base_url=url, timeout=10, trust_env=False) as http:
        system = System(url, server, workers_running, receiver, inbox, http)
        try:
            await server.start()  # first, because it creates the schema
            await asyncio.gather(receiver.start(), *(daemon.start() for daemon in workers_running))
            await system.request("POST", "/api/webhooks", json={"url": f"http://127.0.0.1:{hook}/"})
            yield system
        finally:
            for daemon in (server, *workers_running, receiver):
                daemon.kill()


async def kill_at_random(system: System, rng: random.Random, kills: int, pause: timedelta) -> None:
    """Kill the receiver and workers in turn, at random moments, and the server once in the middle."""
    daemons = itertools.cycle([system.receiver, *system.workers])
    for shot in range(kills):
        await clock.pause(pause * rng.uniform(0.5, 1.5))
        await (system.server if shot == kills // 2 else next(daemons)).restart_after_kill()


async def run(
    system: System,
    *,
    documents: int,
    bases: int,
    kills: int,
    pause: timedelta,
    seed: int,
    patience: float = 120,
) -> None:
    """Add documents while processes are killed, until all are searchable and every consumer has seen the last event."""
    rng = random.Random(seed)
    followers = [asyncio.create_task(system.poll()), asyncio.create_task(system.follow(rng))]
    killing = asyncio.create_task(kill_at_random(system, rng, kills, pause))
    try:
        ids = [
            (await system.request("POST", "/api/knowledge-bases", json={"name": f"base {n}"}))["id"]
            for n in range(bases)
        ]
        for start in range(0, documents, 10):
            notes = [
                {"type": "note", "title": f"note {n}", "content": f"Note {n}: the mill of day {n}."}
                for n in range(start, min(start + 10, documents))
            ]
            body = {"items": notes, "onConflict": "skip"}  # retried when the response was lost
            await system.request("POST", f"/api/knowledge-bases/{rng.choice(ids)}/items", json=body)
        await killing
        await wait_until(lambda: _is_ingested(system, ids, documents), limit=600, every=0.2)
        try:
            await wait_until(lambda: _has_caught_up(system), limit=patience, every=0.2)
        except AssertionError:
            raise AssertionError(
                f"a consumer did not see the last event: {await _describe_progress(system)}"
            ) from None
    finally:
        killing.cancel()
        await clock.cancel_tasks([*followers, killing])


async def _is_ingested(system: System, bases: list[str], documents: int) -> bool:
    counts = Counter[str]()
    for base in bases:
        counts.update((await system.request("GET", f"/api/knowledge-bases/{base}"))["itemCounts"])
    return counts == {"completed": documents}


async def _has_caught_up(system: System) -> bool:
    head = max(int(event["id"]) for event in await all_events(system))
    consumed = (system.polled_events, system.streamed_events, system.received_events())
    return all(events and max(int(event["id"]) for event in events) >= head for events in consumed)


async def _describe_progress(system: System) -> str:
    """How far each consumer has got, and the server's webhooks."""
    hooks = (await system.request("GET", "/api/webhooks"))["items"]
    consumed = {
        "polled": system.polled_events,
        "streamed": system.streamed_events,
        "received": system.received_events(),
    }
    ends = {name: events[-1]["id"] if events else None for name, events in consumed.items()}
    return f"{len(await all_events(system))} events; {ends}; {hooks}"


async def all_events(system: System) -> list[EventJson]:
    """Every event, as the API lists them."""
    events: list[EventJson] = []
    while page := (
        await system.request(
            "GET", "/api/events", params={"after": events[-1]["id"] if events else 0, "limit": 500}
        )
    )["items"]:
        events += page
    return events


def first_seen(events: list[EventJson]) -> list[int]:
    """The positions of events, in the order they were first seen."""
    return list(dict.fromkeys(int(event["id"]) for event in events))


def aggregate_errors(events: list[EventJson]) -> list[str]:
    """Aggregate events that were recorded twice, or before they were true."""
    errors: list[str] = []
    ends_by_version = Counter(
        (event["subject"], event["data"]["version"]) for event in events if _ends(event)
    )
    errors += [
        f"{subject} version {version}: {n} ends"
        for (subject, version), n in ends_by_version.items()
        if n != 1
    ]
    active: dict[str, set[str]] = {}
    fresh: dict[str, bool] = {}
    for event in events:
        base = event["baseId"]
        if event["type"] == "DocumentUploadCompleted":
            active.setdefault(base, set()).add(event["subject"])
            fresh[base] = True
        elif _ends(event):
            active[base].discard(event["subject"])
        elif event["type"] == "KnowledgeSpaceAllDocumentsIngested":
            if active.get(base):
                errors.append(f"event {event['id']}: ready with {len(active[base])} active")
            if not fresh.get(base):
                errors.append(f"event {event['id']}: ready twice")
            fresh[base] = False
    errors += [f"base {base} was never ready" for base, waits in fresh.items() if waits]
    return errors


def _ends(event: EventJson) -> bool:
    return event["type"] in ("DocumentIngestionCompleted", "ItemFailed")
