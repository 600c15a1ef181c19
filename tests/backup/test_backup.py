"""Back-ups of a running installation, the disaster after them, and restores; with real processes and a real PostgreSQL."""

import asyncio
import hashlib
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest

from gristmill.backup import BackupRepository
from gristmill.backup.manifest import SavedFile
from gristmill.backup.repository import PIECE_BYTES
from gristmill.db import local_server
from tests.gristmill_process import ServeProcess, environment, run_command, run_serve
from tests.sources.s3 import run_bucket

pytestmark = [pytest.mark.slow, pytest.mark.crash]


@dataclass
class Installation:
    """A data dir, its environment and where its back-ups are kept."""

    data: Path
    destination: str
    env: dict[str, str]

    def run(self, *arguments: str, faults: str = "") -> Any:
        """Run a command; what it prints with --json, or its error."""
        env = {**self.env, "GRISTMILL_FAULTS": faults}
        done = run_command(env, *arguments, "--json")
        return json.loads(done.stdout) if done.returncode == 0 else (done.returncode, done.stderr)

    def restore(self, target: Path, *options: str, faults: str = "") -> Any:
        """Restore into another data dir."""
        return self.run("restore", self.destination, "--data-dir", str(target), *options, faults=faults)


def upload(server: ServeProcess, base: str, name: str, data: bytes) -> None:
    with server.client() as http:
        files = [("files", (name, data, "text/markdown"))]
        assert http.post(f"/api/knowledge-bases/{base}/files", files=files).status_code == 202


def create_base(server: ServeProcess) -> str:
    with server.client() as http:
        return http.post("/api/knowledge-bases", json={"name": "notes"}).json()["id"]


def titles_and_bytes(data_dir: Path) -> dict[str, str]:
    """The uploads that the database of a data dir names, each with the hash of the bytes that are in its store."""
    server = local_server.start(data_dir)
    try:
        with psycopg.connect(server.url) as connection:
            rows = connection.execute(
                "select i.title, b.name, b.hash from item i join blob b on b.hash = i.blob_hash where i.status <> 'deleting'"
            ).fetchall()
    finally:
        server.close()
    return {
        title: hashlib.sha256((data_dir / "blobs" / name[:2] / name[2:]).read_bytes()).hexdigest()
        for title, name, _ in rows
    }


def tree(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.name != "serve.lock"}


@pytest.fixture
def installation(tmp_path: Path, cache_dir: Path, quick_embedder: dict[str, str]) -> Installation:
    data = tmp_path / "data"
    return Installation(data, str(tmp_path / "backups"), environment(data, cache_dir, **quick_embedder))


@pytest.fixture
def backed_up(installation: Installation, tmp_path: Path) -> Installation:
    """An installation with one upload and one back-up, which has stopped."""
    with run_serve(installation.env, log=tmp_path / "log") as server:
        upload(server, create_base(server), "rye.md", b"Rye by the sack.")
        assert server.stop() == 0
    report = installation.run("backup", installation.destination)
    assert isinstance(report, dict), report
    assert report["blobs"] == 1
    return installation


def test_a_backup_under_load_is_restored_as_one_moment(installation: Installation, tmp_path: Path) -> None:
    """Uploads and deletions go on while two back-ups are made. Each restored one names only bytes that it has, an
    earlier one knows nothing of what came later, and the second costs less than the first."""
    done = threading.Event()
    with run_serve(installation.env, log=tmp_path / "log") as server:
        base = create_base(server)

        def keep_changing() -> None:
            with server.client() as http:
                for number in range(10_000):
                    if done.is_set():
                        return
                    upload(server, base, f"{number}.md", f"Sack {number}.".encode() * 100)
                    items = http.get(f"/api/knowledge-bases/{base}/items").json()["items"]
                    if number % 3 == 2 and items:
                        http.delete(f"/api/knowledge-items/{items[0]['id']}")

        upload(server, base, "first.md", b"The first sack.")
        changes = threading.Thread(target=keep_changing)
        changes.start()
        try:
            made = [installation.run("backup", installation.destination) for _ in range(2)]
        finally:
            done.set()
            changes.join()
        server.kill()
    installation.data.rename(tmp_path / "lost")
    assert [backup["createdAt"] for backup in made] == sorted(backup["createdAt"] for backup in made)
    assert made[1]["writtenBytes"] < made[0]["writtenBytes"]
    contents = list[dict[str, str]]()
    for number in (0, 1):
        target = tmp_path / f"restored-{number}"
        assert installation.restore(target, "--at", made[number]["id"])["id"] == made[number]["id"]
        contents.append(titles_and_bytes(target))
        for title, digest in contents[-1].items():
            expected = b"The first sack." if title == "first.md" else f"Sack {title[:-3]}.".encode() * 100
            assert digest == hashlib.sha256(expected).hexdigest()
    assert contents[0] != contents[1]
    checks = installation.run("doctor", "--data-dir", str(tmp_path / "restored-1"))
    assert [check["what"] for check in checks if not check["ok"]] == []


def test_a_killed_backup_leaves_no_backup_and_the_next_one_is_whole(
    backed_up: Installation, tmp_path: Path
) -> None:
    for point in ("backup.files_saved", "backup.stopped", "backup.before_manifest"):
        assert backed_up.run("backup", backed_up.destination, faults=f"{point}=kill")[0] == -9
    assert len(backed_up.run("backup", backed_up.destination, "--list")["items"]) == 1
    newest = backed_up.run("backup", backed_up.destination, "--keep", "1")
    assert len(newest["removed"]) == 1
    assert backed_up.run("backup", backed_up.destination, "--verify")["id"] == newest["id"]
    restored = backed_up.restore(tmp_path / "restored")
    assert isinstance(restored, dict), restored
    assert restored["id"] == newest["id"]
    assert set(titles_and_bytes(tmp_path / "restored")) == {"rye.md"}


def test_a_killed_restore_is_repeated(backed_up: Installation, tmp_path: Path) -> None:
    """Before its last step nothing starts on the data dir; after it, the data dir is whole."""
    target = tmp_path / "restored"
    for point in ("restore.file_written=kill@40", "restore.recovered=kill", "restore.blobs_moved=kill"):
        assert backed_up.restore(target, faults=point)[0] == -9
        assert not (target / "postgres" / "data").exists()
    assert backed_up.restore(target, faults="restore.moved=kill")[0] == -9
    assert set(titles_and_bytes(target)) == {"rye.md"}
    code, message = backed_up.restore(target)
    assert code == 1
    assert "already has data" in message


@pytest.mark.thorough
def test_backups_are_kept_in_a_bucket(installation: Installation, tmp_path: Path) -> None:
    """Killed before it was complete there is none; a second one at the same time is refused; a restore has what was there."""
    with run_serve(installation.env, log=tmp_path / "log") as server:
        upload(server, create_base(server), "rye.md", b"Rye by the sack.")
        assert server.stop() == 0
    with run_bucket() as bucket:
        stored = replace(
            installation, destination="s3://bucket/mill", env={**installation.env, **bucket.environment()}
        )
        assert stored.run("backup", stored.destination, faults="backup.before_manifest=kill")[0] == -9
        assert stored.run("backup", stored.destination, "--list")["items"] == []
        name = "mill/lock"
        owner = json.loads(bucket.objects[name][0])
        bucket.objects[name] = (json.dumps({**owner, "host": "another"}).encode(), datetime.now(UTC))
        code, message = stored.run("backup", stored.destination)
        assert (code, "Another back-up is running" in message) == (1, True)
        del bucket.objects[name]
        made = stored.run("backup", stored.destination)
        assert stored.run("backup", stored.destination)["writtenBytes"] < made["writtenBytes"]
        assert stored.restore(tmp_path / "restored", "--at", made["id"])["blobs"] == 1
        bucket.failure_status = 403
        code, message = stored.run("backup", stored.destination)
        assert (code, "refuses access (403)" in message) == (2, True)
    assert set(titles_and_bytes(tmp_path / "restored")) == {"rye.md"}


def test_a_damaged_backup_is_refused_and_nothing_is_changed(backed_up: Installation, tmp_path: Path) -> None:
    target, pieces = tmp_path / "restored", sorted((Path(backed_up.destination) / "pieces").rglob("*"))
    piece = max((path for path in pieces if path.is_file()), key=lambda path: path.stat().st_size)
    (manifest,) = (Path(backed_up.destination) / "backups").iterdir()
    damages: list[tuple[Path, Callable[[bytes], bytes]]] = [
        (piece, lambda data: data[:-1] + bytes([data[-1] ^ 1])),
        (piece, lambda data: data[:100]),
        (manifest, lambda data: data[:-1]),
        (manifest, lambda data: data.replace(b"gristmill-backup 1", b"gristmill-backup 9")),
    ]
    for path, damage in damages:
        whole = path.read_bytes()
        path.write_bytes(damage(whole))
        code, message = backed_up.restore(target)
        assert code == 1
        assert "back-up" in message
        assert tree(target) == set() if target.exists() else True
        path.write_bytes(whole)
    asyncio.run(cut_unevenly(backed_up.destination))
    assert backed_up.restore(target)["blobs"] == 1
    assert set(titles_and_bytes(target)) == {"rye.md"}


async def cut_unevenly(destination: str) -> None:
    """Give the files of a back-up other pieces, as an earlier release did if a file grew while it was read."""
    repository = BackupRepository.open(destination, create=False)
    (backup_id,) = await repository.list_ids()
    manifest = await repository.read_manifest(backup_id)
    await repository.load_stored_pieces()
    files = list[SavedFile]()
    for file in manifest.files:
        data = b"".join(map(repository.read_piece, file.pieces))
        halves = [repository.put_piece(half)[0] for half in (data[: len(data) // 3], data[len(data) // 3 :])]
        is_short = 3 <= len(data) <= PIECE_BYTES
        files.append(replace(file, pieces=tuple(halves)) if is_short else file)
    assert sum(len(file.pieces) == 2 for file in files) > 100
    sizes = {digest: repository.piece_size(digest) for file in files for digest in file.pieces}
    await repository.write_manifest(
        replace(manifest, files=tuple(files), pieces={**manifest.pieces, **sizes})
    )
