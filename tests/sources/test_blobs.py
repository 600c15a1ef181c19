"""The blob store, in a folder, in memory and over S3's own protocol."""

import asyncio
import hashlib
import os
import shutil
import subprocess
import sys
import tracemalloc
from collections.abc import AsyncIterator, Generator
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gristmill import faults
from gristmill.errors import Permanent, SetupError, SourceGone, Transient
from gristmill.sources import Blob, BlobStore
from tests.sources.s3 import FakeBucket, run_bucket

DAY = timedelta(days=1)
# More than one part of an object store, so that it takes an upload and a move.
LARGE = bytes(range(256)) * 4096 * 20
NEVER = hashlib.sha256(b"never put").hexdigest() + "." + "0" * 32


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Generator[FakeBucket]:
    with run_bucket() as bucket:
        for name, value in bucket.environment().items():
            monkeypatch.setenv(name, value)
        yield bucket


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "blobs"


@pytest.fixture(params=["folder", "memory", "s3"])
def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> BlobStore:
    if request.param == "s3":
        request.getfixturevalue("s3")
    url = {"folder": None, "memory": "memory://", "s3": "s3://bucket/some/where"}[request.param]
    return BlobStore.open(url, tmp_path)


async def small_chunks(data: bytes, size: int = 60_000) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


async def list_blobs(blobs: BlobStore) -> set[Blob]:
    return {blob async for blob in blobs.list()}


@pytest.mark.parametrize("data", [b"", b"a few bytes", LARGE], ids=["none", "few", "many"])
async def test_what_is_put_can_be_read_by_its_name(blobs: BlobStore, data: bytes) -> None:
    blob = await blobs.put(small_chunks(data))
    assert (blob.hash, blob.size) == (hashlib.sha256(data).digest(), len(data))
    assert await blobs.get(blob.name, len(data)) == data
    assert b"".join([part async for part in blobs.read(blob.name)]) == data
    assert (await blobs.size(blob.name), await blobs.exists(blob.name)) == (len(data), True)


async def test_equal_bytes_get_different_names(blobs: BlobStore) -> None:
    first, second = await asyncio.gather(
        blobs.put(small_chunks(LARGE)), blobs.put(small_chunks(LARGE, 7_000))
    )
    assert (first.hash, first.name != second.name) == (second.hash, True)
    assert await list_blobs(blobs) == {first, second}
    await blobs.delete([first.name])
    assert await list_blobs(blobs) == {second}
    assert await blobs.get(second.name, len(LARGE)) == LARGE
    assert await blobs.sweep_temporaries(timedelta(0)) == 0


async def test_the_name_is_known_before_the_blob_exists(blobs: BlobStore) -> None:
    """After a kill in between, the database knows the name; the other way round it would not."""
    names_recorded: list[Blob] = []

    async def record(blob: Blob) -> None:
        assert not await blobs.exists(blob.name)
        names_recorded.append(blob)

    assert [await blobs.put(small_chunks(b"rye"), before_commit=record)] == names_recorded


async def test_a_failure_before_the_commit_leaves_nothing(blobs: BlobStore) -> None:
    async def refuse(blob: Blob) -> None:
        raise ConnectionResetError(blob.name)

    with pytest.raises(ConnectionResetError):
        await blobs.put(small_chunks(LARGE), before_commit=refuse)
    assert await list_blobs(blobs) == set()
    assert await blobs.sweep_temporaries(timedelta(0)) == 0


async def test_a_blob_that_is_not_there_is_gone(blobs: BlobStore) -> None:
    assert not await blobs.exists(NEVER)
    for call in (blobs.size(NEVER), blobs.get(NEVER, 10), anext(blobs.read(NEVER))):
        with pytest.raises(SourceGone) as caught:
            await call
        assert caught.value.code == "blob_gone"


async def test_deleting_twice_is_harmless(blobs: BlobStore) -> None:
    remaining, *deleted = [await blobs.put(small_chunks(data)) for data in (b"one", b"two", b"three")]
    assert await blobs.delete([blob.name for blob in deleted]) == 2
    await blobs.delete([deleted[0].name])
    assert await blobs.delete([]) == 0
    assert await list_blobs(blobs) == {remaining}


async def test_a_folder_counts_the_blobs_that_it_deletes(tmp_path: Path) -> None:
    blobs = BlobStore.open(None, tmp_path)
    blob = await blobs.put(small_chunks(b"one"))
    assert await blobs.delete([blob.name, NEVER]) == 1


@pytest.mark.parametrize("data", [b"x" * 11, LARGE], ids=["few", "many"])
async def test_more_than_the_limit_is_refused_and_leaves_nothing(blobs: BlobStore, data: bytes) -> None:
    with pytest.raises(Permanent) as caught:
        await blobs.put(small_chunks(data), limit=len(data) - 1)
    assert caught.value.code == "document_too_large"
    assert await list_blobs(blobs) == set()
    assert await blobs.sweep_temporaries(timedelta(0)) == 0
    blob = await blobs.put(small_chunks(data), limit=len(data))
    with pytest.raises(Permanent) as caught:
        await blobs.get(blob.name, len(data) - 1)
    assert caught.value.code == "document_too_large"


async def test_what_the_callers_stream_raises_passes_through_and_leaves_nothing(blobs: BlobStore) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield LARGE
        raise ConnectionResetError("the client hung up")

    with pytest.raises(ConnectionResetError):
        await blobs.put(broken())
    assert await list_blobs(blobs) == set()
    assert await blobs.sweep_temporaries(timedelta(0)) == 0


async def test_a_put_that_is_cancelled_leaves_nothing(blobs: BlobStore) -> None:
    with faults.watch("blobs.part_written", hold=True) as fault:
        task = asyncio.create_task(blobs.put(small_chunks(LARGE)))
        await fault.passed.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert await list_blobs(blobs) == set()
    assert await blobs.sweep_temporaries(timedelta(0)) == 0


async def test_an_abandoned_upload_leaves_no_parts_in_the_bucket(s3: FakeBucket, tmp_path: Path) -> None:
    blobs = BlobStore.open("s3://bucket", tmp_path)
    with pytest.raises(Permanent):
        await blobs.put(small_chunks(LARGE), limit=len(LARGE) - 1)
    assert (s3.uploads, s3.objects) == ({}, {})


async def test_a_small_blob_is_one_request(s3: FakeBucket, tmp_path: Path) -> None:
    blobs = BlobStore.open("s3://bucket", tmp_path)
    await blobs.put(small_chunks(b"small"))
    assert [request.method for request in s3.site.requests] == ["PUT"]


async def test_a_failing_object_store_is_a_transient_error(s3: FakeBucket, tmp_path: Path) -> None:
    blobs = BlobStore.open("s3://bucket", tmp_path)
    blob = await blobs.put(small_chunks(b"kept"))
    s3.failure_status = 403
    for call in (
        blobs.put(small_chunks(b"x")),
        blobs.get(blob.name, 10),
        blobs.delete([blob.name]),
        list_blobs(blobs),
    ):
        with pytest.raises(Transient) as caught:
            await call
        assert caught.value.code == "blob_store_unavailable"
        assert "\n" not in caught.value.message
        assert "something" not in caught.value.message


async def test_a_missing_folder_is_a_transient_error(tmp_path: Path, folder: Path) -> None:
    blobs = BlobStore.open(None, tmp_path)
    shutil.rmtree(folder)
    with pytest.raises(Transient) as caught:
        await blobs.put(small_chunks(b"x"))
    assert caught.value.code == "blob_store_unavailable"


def test_a_full_disk_is_a_transient_error_and_leaves_nothing() -> None:
    """In a mount namespace of its own, with a disk of 256 KiB."""
    script = f"""
import asyncio, sys
from datetime import timedelta
from pathlib import Path
from gristmill.errors import Transient
from gristmill.sources import BlobStore

async def zeros():
    for _ in range(10):
        yield bytes(100_000)

async def main():
    blobs = BlobStore.open(None, Path(sys.argv[1]))
    try:
        await blobs.put(zeros())
    except Transient as error:
        print(error.code, await blobs.sweep_temporaries(timedelta(0)))

sys.path[:0] = {sys.path!r}
asyncio.run(main())
"""
    mount = 'dir=$(mktemp -d) && mount -t tmpfs -o size=256k none "$dir" && exec "$@" "$dir"'
    unshare = ["unshare", "--mount", "--map-root-user", "sh", "-c", mount, "sh"]
    if shutil.which("unshare") is None or subprocess.run([*unshare, "true"], capture_output=True).returncode:
        pytest.skip("this machine does not allow mounting a small disk")
    process = subprocess.run([*unshare, sys.executable, "-c", script], capture_output=True, text=True)
    assert process.stdout.split() == ["disk_full", "0"]


async def test_a_kill_in_the_middle_leaves_a_temporary_that_a_sweep_removes(
    tmp_path: Path, folder: Path
) -> None:
    script = f"""
import asyncio, sys
sys.path[:0] = {sys.path!r}
from pathlib import Path
from gristmill import faults
from gristmill.sources import BlobStore

async def some():
    yield b"x" * 3_000_000

faults.arm("blobs.before_move=kill")
asyncio.run(BlobStore.open(None, Path(sys.argv[1])).put(some()))
"""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", script, str(tmp_path))
    assert await process.wait() == -9
    blobs = BlobStore.open(None, tmp_path)
    assert await list_blobs(blobs) == set()
    assert [path.stat().st_size for path in files(folder)] == [3_000_000]
    assert await blobs.sweep_temporaries(DAY) == 0
    assert await blobs.sweep_temporaries(timedelta(0)) == 1
    assert files(folder) == []


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc to find the path of a descriptor")
async def test_a_blob_and_its_name_are_on_the_disk_before_put_returns(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced_files: list[str] = []
    real = os.fsync

    def record_fsync(file: int) -> None:
        real(file)
        path = Path(f"/proc/self/fd/{file}").readlink()
        synced_files.append("temporary" if path.parent.name == "tmp" else path.relative_to(folder).as_posix())

    blobs = BlobStore.open(None, tmp_path)
    monkeypatch.setattr(os, "fsync", record_fsync)
    blob = await blobs.put(small_chunks(b"durable"))
    assert synced_files == ["temporary", blob.name[:2], "."]


async def test_blobs_can_be_listed_by_their_age(tmp_path: Path, folder: Path) -> None:
    blobs = BlobStore.open(None, tmp_path)
    old, _ = await blobs.put(small_chunks(b"old")), await blobs.put(small_chunks(b"new"))
    os.utime(folder / old.name[:2] / old.name[2:], (0, 0))
    assert [blob async for blob in blobs.list(older_than=DAY)] == [old]


async def test_a_blob_from_before_names_had_tokens_is_read_and_deleted(tmp_path: Path, folder: Path) -> None:
    blobs, digest = BlobStore.open(None, tmp_path), hashlib.sha256(b"rye").digest()
    (folder / digest.hex()[:2]).mkdir()
    (folder / digest.hex()[:2] / digest.hex()[2:]).write_bytes(b"rye")
    assert await list_blobs(blobs) == {Blob(digest, 3, digest.hex())}
    assert await blobs.get(digest.hex(), 3) == b"rye"
    assert await blobs.delete([digest.hex()]) == 1


async def test_other_files_in_the_folder_are_no_blobs(tmp_path: Path, folder: Path) -> None:
    blobs = BlobStore.open(None, tmp_path)
    (folder / "ab").mkdir()
    for name in ("README", "ab/cd", "ab/" + "z" * 62, "AB" + "0" * 62):
        (folder / name).write_text("x")
    assert await list_blobs(blobs) == set()


@pytest.mark.parametrize(
    "url",
    [
        "nonsense",
        "ftp://host/path",
        "http://host/path",
        "s3://",
        "az://container",
        "s3://key:secret@bucket/",
        "s3://bucket/?secret=1",
        "file://relative/path",
        "file:///proc/version/blobs",
    ],
)
def test_an_address_that_cant_be_used_is_refused_at_the_start(url: str, tmp_path: Path) -> None:
    with pytest.raises(SetupError) as caught:
        BlobStore.open(url, tmp_path)
    assert caught.value.code == "bad_blob_store"
    assert "secret" not in caught.value.message
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    "url", ["s3://bucket", "gs://bucket/folder", "abfs://container@account.dfs.core.windows.net/folder"]
)
def test_the_clouds_can_be_named_by_their_addresses(url: str, tmp_path: Path) -> None:
    assert BlobStore.open(url, tmp_path)
    assert list(tmp_path.iterdir()) == []


async def test_a_folder_can_be_named_by_its_address(tmp_path: Path) -> None:
    blob = await BlobStore.open((tmp_path / "else where").as_uri(), tmp_path).put(small_chunks(b"x"))
    assert (tmp_path / "else where" / blob.name[:2] / blob.name[2:]).read_bytes() == b"x"


async def test_memory_does_not_grow_with_the_blob(tmp_path: Path) -> None:
    blobs = BlobStore.open(None, tmp_path)

    async def zeros() -> AsyncIterator[bytes]:
        for _ in range(1000):
            yield bytes(64 * 1024)

    tracemalloc.start()
    try:
        blob = await blobs.put(zeros())
        size = sum([len(part) async for part in blobs.read(blob.name)])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size == 1000 * 64 * 1024
    assert peak < 24 * 2**20


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)
@given(chunks=st.lists(st.binary(max_size=50), max_size=8))
def test_any_bytes_in_any_chunks_come_back_as_they_were(chunks: list[bytes], tmp_path: Path) -> None:
    async def there_and_back() -> bytes:
        async def stream() -> AsyncIterator[bytes]:
            for chunk in chunks:
                yield chunk

        blobs = BlobStore.open(None, tmp_path)
        return await blobs.get((await blobs.put(stream())).name, 1000)

    assert asyncio.run(there_and_back()) == b"".join(chunks)
