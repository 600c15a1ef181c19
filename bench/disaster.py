"""Backs up a running installation at random moments, loses it, and restores it: `python -m bench.disaster [--rounds 12] [--seed N]`.

    load      one writer uploads, renames and deletes documents, one operation after the other, and notes the titles after each
    back up   again and again, every second time killed with -9 at a random moment
    lose      the server is killed with -9 in the middle of its work, and its data dir is moved away
    restore   every back-up into a data dir of its own, some killed with -9 at a random moment and begun again

Each restored data dir must have the titles of one moment between the start and the end of its back-up, every upload with its bytes, and no
broken promise after a server has finished what was in work. The exit code is 1 if one has not. `--destination s3://…` keeps the back-ups in a
bucket, with its address and credentials in the environment.
"""

import argparse
import hashlib
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psycopg

from gristmill.db import local_server
from tests.embedding import endpoint
from tests.gristmill_process import ServeProcess, environment, run_serve

_MAX_DOCUMENTS = 60
_PATIENCE = 120.0
_POLL = 0.2


@dataclass
class Writer:
    """Changes a base until it is stopped. `moments` has the titles after each operation that was confirmed."""

    server: ServeProcess
    base: str
    chance: random.Random
    moments: list[frozenset[str]] = field(default_factory=lambda: [frozenset()])
    stopped: threading.Event = field(default_factory=threading.Event)
    _ids: dict[str, str] = field(default_factory=dict[str, str])

    def run(self) -> None:
        """Work until `stopped`, or until the server is gone."""
        with self.server.client() as http:
            number = 0
            while not self.stopped.is_set():
                number += 1
                try:
                    self._change(http, number)
                except httpx.TransportError:
                    return
                self.moments.append(frozenset(self._ids))

    def _change(self, http: httpx.Client, number: int) -> None:
        kind = self.chance.choice(("upload", "upload", "rename", "delete"))
        if not self._ids or (kind == "upload" and len(self._ids) < _MAX_DOCUMENTS):
            title = f"sack-{number}.md"
            files = [("files", (title, text_of(number), "text/markdown"))]
            response = http.post(f"/api/knowledge-bases/{self.base}/files", files=files)
            assert response.status_code == 202, response.text
            self._ids[title] = response.json()["created"][0]["id"]
            return
        title = self.chance.choice(sorted(self._ids))
        item = self._ids.pop(title)
        if kind == "rename":
            stem, _, _ = title.removesuffix(".md").partition("+")
            title = f"{stem}+{number}.md"
            response = http.patch(f"/api/knowledge-items/{item}", json={"title": title})
            self._ids[title] = item
        else:
            response = http.delete(f"/api/knowledge-items/{item}")
        assert response.is_success, response.text


def text_of(number: int) -> bytes:
    """The bytes of an upload: large enough that a back-up takes a while."""
    return f"# Sack {number}\n\nRye for the mill, sack {number}.\n\n".encode() * 400


@dataclass(frozen=True)
class Backup:
    """A back-up that ended well, and between which operations of the writer it was made."""

    id: str
    first: int
    last: int


def run_killable(env: Mapping[str, str], *arguments: str, kill_after: float | None) -> dict[str, Any] | None:
    """Run a command; what it printed, or None if it was killed."""
    process = subprocess.Popen(
        [sys.executable, "-m", "gristmill", *arguments, "--json"],
        env=dict(env),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        output, errors = process.communicate(timeout=kill_after)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return None
    assert process.returncode == 0, errors.decode()
    return json.loads(output)


def make_backups(
    env: Mapping[str, str], destination: str, writer: Writer, rounds: int, counts: Counter[str]
) -> list[Backup]:
    """Back up at random moments; every second attempt is killed at one."""
    backups: list[Backup] = []
    usual = 10.0
    for number in range(rounds):
        time.sleep(writer.chance.uniform(0, 1))
        first, started = len(writer.moments) - 1, time.monotonic()
        kill_after = writer.chance.uniform(0.3, usual) if number % 2 else None
        report = run_killable(env, "backup", destination, kill_after=kill_after)
        if report is None:
            counts["back-ups killed"] += 1
            continue
        usual = time.monotonic() - started
        counts["back-ups made"] += 1
        backups.append(Backup(report["id"], first, len(writer.moments)))
    listed = run_killable(env, "backup", destination, "--list", kill_after=None)
    assert listed is not None
    made = {backup.id for backup in backups}
    extra = {row["id"] for row in listed["items"]} - made
    counts["killed after they were complete"] = len(extra)
    assert made <= {row["id"] for row in listed["items"]}
    return backups


def restore(
    env: Mapping[str, str],
    destination: str,
    backup: Backup,
    target: Path,
    chance: random.Random,
    counts: Counter[str],
) -> None:
    """Restore a back-up, perhaps killed some times before."""
    command = ("restore", destination, "--data-dir", str(target), "--at", backup.id)
    usual = 6.0
    for _ in range(chance.randrange(3)):
        if run_killable(env, *command, kill_after=chance.uniform(0.5, usual)) is not None:
            counts["restores made"] += 1
            return
        counts["restores killed"] += 1
        if (target / "postgres" / "data").exists():
            counts["killed after they were complete"] += 1
            return
    assert run_killable(env, *command, kill_after=None) is not None
    counts["restores made"] += 1


def compare(data: Path, writer: Writer, backup: Backup) -> list[str]:
    """How a restored data dir differs from every moment of its back-up."""
    server = local_server.start(data)
    try:
        with psycopg.connect(server.url) as connection:
            rows = connection.execute(
                "select i.title, b.name from item i join blob b on b.hash = i.blob_hash where i.status <> 'deleting'"
            ).fetchall()
    finally:
        server.close()
    differences: list[str] = []
    titles = frozenset(title for title, _ in rows)
    if titles not in writer.moments[backup.first : backup.last + 2]:
        closest = min(writer.moments[backup.first : backup.last + 2], key=lambda moment: len(moment ^ titles))
        differences.append(f"{backup.id} is of no moment of its time: {sorted(closest ^ titles)}")
    for title, name in rows:
        number = int(title.removesuffix(".md").removeprefix("sack-").partition("+")[0])
        path = data / "blobs" / name[:2] / name[2:]
        if (
            not path.exists()
            or hashlib.sha256(path.read_bytes()).digest() != hashlib.sha256(text_of(number)).digest()
        ):
            differences.append(f"{backup.id}: the bytes of {title} differ")
    return differences


def check_promises(env: Mapping[str, str], log: Path) -> list[str]:
    """Let a server finish the work of a restored data dir; the promises that are broken then."""
    with run_serve(env, log=log) as server, server.client() as http:
        deadline = time.monotonic() + _PATIENCE
        while (queue := http.get("/api/queue").json())["running"] or queue["waiting"]:
            if time.monotonic() > deadline:
                return ["work did not end"]
            time.sleep(_POLL)
        violations = http.get("/api/health/invariants").json()["violations"]
        server.stop()
    return [json.dumps(violation) for violation in violations]


def run(rounds: int, seed: int, destination: str | None) -> bool:
    """One disaster; whether every back-up brought back a moment."""
    chance, counts = random.Random(seed), Counter[str]()
    differences: list[str] = []
    with tempfile.TemporaryDirectory(prefix="gristmill-disaster-") as name, endpoint.serve() as embedder:
        folder = Path(name)
        folder.chmod(0o755)
        destination = destination or str(folder / "backups")
        cache = folder / "cache"
        env = environment(folder / "data", cache, **endpoint.embedder_settings(embedder.url))
        with run_serve(env, log=folder / "log") as server:
            with server.client() as http:
                base = http.post("/api/knowledge-bases", json={"name": "mill"}).json()["id"]
            writer = Writer(server, base, random.Random(seed + 1))
            thread = threading.Thread(target=writer.run)
            thread.start()
            backups = make_backups(env, destination, writer, rounds, counts)
            server.kill()
            writer.stopped.set()
            thread.join()
        (folder / "data").rename(folder / "lost")
        counts["operations"] = len(writer.moments) - 1
        for number, backup in enumerate(backups):
            target = folder / f"restored-{number}"
            restore(env, destination, backup, target, chance, counts)
            differences += compare(target, writer, backup)
            restored = environment(target, cache, **endpoint.embedder_settings(embedder.url))
            differences += check_promises(restored, folder / "log")
    print(json.dumps({"seed": seed, **counts, "differences": differences}, indent=1))
    return not differences


def main() -> None:
    """Read the options and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--seed", type=int, default=random.randrange(10_000))
    parser.add_argument("--destination", default=None)
    options = parser.parse_args()
    sys.exit(0 if run(options.rounds, options.seed, options.destination) else 1)


if __name__ == "__main__":
    main()
