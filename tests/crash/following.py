"""A system under fire, and three that follow it: a poller with a cursor, a stream that breaks, a webhook.

Workers, the server and the receiver are killed at random while documents are added to several bases. Afterwards
each of the three must have seen every event, in order, and each event must have been true.
"""

import asyncio
import contextlib
import itertools
import json
import random
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx

from gristmill import clock
from tests.events.sse import stream
from tests.waiting import until

Told = dict[str, Any]


def free_port() -> int:
    """A port that nobody has at the moment."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]


@dataclass
class Daemon:
    """A process that is started anew whenever it was killed."""

    arguments: list[str]
    env: Mapping[str, str]
    log: Path
    kills: int = 0
    process: "subprocess.Popen[str] | None" = None

    async def start(self) -> str:
        """Start it; the line by which it says that it is ready."""
        line = await asyncio.to_thread(self._start)
        assert line, self.log.read_text()[-2000:]
        return line

    def _start(self) -> str:
        with self.log.open("a") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *self.arguments],
                env=dict(self.env),
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def kill(self) -> None:
        """kill -9, and see it gone."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(10)
            if self.process.stdout is not None:
                self.process.stdout.close()
            self.process = None

    async def shoot(self) -> None:
        """Kill it and start it again."""
        self.kill()
        self.kills += 1
        await self.start()


@dataclass
class Field:
    """What runs, and what was seen of it."""

    url: str
    server: Daemon
    workers: list[Daemon]
    receiver: Daemon
    inbox: Path
    http: httpx.AsyncClient
    polled: list[Told] = field(default_factory=list[Told])
    streamed: list[Told] = field(default_factory=list[Told])
    reconnects: int = 0

    async def ask(self, method: str, path: str, **more: Any) -> Any:
        """The answer of the server, whenever it is there."""

        async def asked() -> httpx.Response | None:
            with contextlib.suppress(httpx.HTTPError):
                response = await self.http.request(method, path, **more)
                return response if response.status_code < 500 else None
            return None

        response = await until(asked, limit=60, every=0.05)
        assert response.is_success, response.text
        return response.json()

    async def poll(self) -> None:
        """Read with a cursor, for ever."""
        cursor = "0"
        while True:
            page = await self.ask("GET", "/api/events", params={"after": cursor, "limit": 50})
            self.polled += page["items"]
            cursor = page["nextCursor"]
            if len(page["items"]) < 50:
                await clock.pause(timedelta(milliseconds=50))

    async def follow(self, chance: random.Random) -> None:
        """Follow the stream, and let go of it every now and then, for ever."""
        last: str | None = "0"
        while True:
            with contextlib.suppress(httpx.HTTPError, AssertionError):  # AssertionError: 503 while it stops
                async with stream(self.url, last_id=last) as followed:
                    left = chance.randint(5, 60)
                    async for frame in followed.frames():
                        last = followed.last_id
                        if frame.id is not None:
                            self.streamed.append(frame.data)
                            left -= 1
                        if left == 0:
                            break
            self.reconnects += 1
            await clock.pause(timedelta(milliseconds=20))

    def received(self) -> list[Told]:
        """What the webhook's receiver has got."""
        return [json.loads(line) for line in self.inbox.read_text().splitlines()]


@asynccontextmanager
async def field_of(env: Mapping[str, str], folder: Path, *, workers: int) -> AsyncGenerator[Field]:
    """A server, workers and a receiver, running; all of them killed at the end."""
    port, hook = free_port(), free_port()
    log, inbox = folder / "log", folder / "inbox"
    inbox.touch()
    server = Daemon(["gristmill", "serve", "--port", str(port)], env, log)
    hands = [Daemon(["gristmill", "worker"], env, log) for _ in range(workers)]
    receiver = Daemon(["tests.events.receiver", str(hook), str(inbox)], env, log)
    url = f"http://127.0.0.1:{port}"
    async with httpx.AsyncClient(base_url=url, timeout=10, trust_env=False) as http:
        there = Field(url, server, hands, receiver, inbox, http)
        try:
            await server.start()  # first: it makes the schema
            await asyncio.gather(receiver.start(), *(one.start() for one in hands))
            await there.ask("POST", "/api/webhooks", json={"url": f"http://127.0.0.1:{hook}/"})
            yield there
        finally:
            for one in (server, *hands, receiver):
                one.kill()


async def shoot(there: Field, chance: random.Random, kills: int, pause: timedelta) -> None:
    """Kill the receiver and workers in turn, at random moments, and the server once in the middle."""
    others = itertools.cycle([there.receiver, *there.workers])
    for shot in range(kills):
        await clock.pause(pause * chance.uniform(0.5, 1.5))
        await (there.server if shot == kills // 2 else next(others)).shoot()


async def run(
    there: Field,
    *,
    documents: int,
    bases: int,
    kills: int,
    pause: timedelta,
    seed: int,
    patience: float = 120,
) -> None:
    """Add documents under fire; returns when all are searchable and all three have seen the last event."""
    chance = random.Random(seed)
    followers = [asyncio.create_task(there.poll()), asyncio.create_task(there.follow(chance))]
    firing = asyncio.create_task(shoot(there, chance, kills, pause))
    try:
        ids = [
            (await there.ask("POST", "/api/knowledge-bases", json={"name": f"base {n}"}))["id"]
            for n in range(bases)
        ]
        for start in range(0, documents, 10):
            notes = [
                {"type": "note", "title": f"note {n}", "content": f"Note {n}: the mill of day {n}."}
                for n in range(start, min(start + 10, documents))
            ]
            body = {"items": notes, "onConflict": "skip"}  # asked again when the answer was lost
            await there.ask("POST", f"/api/knowledge-bases/{chance.choice(ids)}/items", json=body)
        await firing
        await until(lambda: _settled(there, ids, documents), limit=600, every=0.2)
        try:
            await until(lambda: _caught_up(there), limit=patience, every=0.2)
        except AssertionError:
            raise AssertionError(f"somebody did not see the last event: {await _standing(there)}") from None
    finally:
        firing.cancel()
        await clock.stop([*followers, firing])


async def _settled(there: Field, bases: list[str], documents: int) -> bool:
    counts = Counter[str]()
    for base in bases:
        counts.update((await there.ask("GET", f"/api/knowledge-bases/{base}"))["itemCounts"])
    return counts == {"completed": documents}


async def _caught_up(there: Field) -> bool:
    head = max(int(event["id"]) for event in await truth(there))
    seen = (there.polled, there.streamed, there.received())
    return all(told and max(int(event["id"]) for event in told) >= head for told in seen)


async def _standing(there: Field) -> str:
    """How far each has come, and what the server says of the webhook."""
    hooks = (await there.ask("GET", "/api/webhooks"))["items"]
    seen = {"polled": there.polled, "streamed": there.streamed, "received": there.received()}
    ends = {name: told[-1]["id"] if told else None for name, told in seen.items()}
    return f"{len(await truth(there))} events; {ends}; {hooks}"


async def truth(there: Field) -> list[Told]:
    """Every event, as the table has them."""
    found: list[Told] = []
    while page := (
        await there.ask("GET", "/api/events", params={"after": found[-1]["id"] if found else 0, "limit": 500})
    )["items"]:
        found += page
    return found


def first_seen(told: list[Told]) -> list[int]:
    """The places of events, each where it was seen first."""
    return list(dict.fromkeys(int(event["id"]) for event in told))


def early_or_doubled(events: list[Told]) -> list[str]:
    """Aggregates that were told twice or before they were true; none, if all is well."""
    wrong: list[str] = []
    ended = Counter((event["subject"], event["data"]["version"]) for event in events if _ends(event))
    wrong += [f"{subject} version {version}: {n} ends" for (subject, version), n in ended.items() if n != 1]
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
                wrong.append(f"event {event['id']}: ready with {len(active[base])} active")
            if not fresh.get(base):
                wrong.append(f"event {event['id']}: ready twice")
            fresh[base] = False
    wrong += [f"base {base} was never ready" for base, waits in fresh.items() if waits]
    return wrong


def _ends(event: Told) -> bool:
    return event["type"] in ("DocumentIngestionCompleted", "ItemFailed")
