"""Listing one level of a folder, with real files, links and forbidden things."""

import asyncio
import importlib
import os
import shutil
import socket
import tempfile
import tracemalloc
from collections.abc import Callable, Generator
from contextlib import aclosing, contextmanager, suppress
from pathlib import Path

import pytest

from gristmill import faults
from gristmill.errors import SourceGone, Unreadable, WorkError
from gristmill.sources import IGNORE_FILE, DirectoryEntry, IgnoreRules, directory, list_folder
from gristmill.sources.directory import FolderContents
from tests.sources.folder_listing import entry_names, list_entries, list_tree, write_files

UNPRIVILEGED_UID = 65_534


@contextmanager
def as_unprivileged_user() -> Generator[None]:
    """Runs the block as an unprivileged user, because root may read everything.

    That user can't import modules if Python is in the home folder of root, so lazy imports are done before.
    """
    importlib.import_module("concurrent.futures.thread")
    if os.getuid() != 0:
        yield
        return
    os.setresuid(UNPRIVILEGED_UID, UNPRIVILEGED_UID, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


@pytest.fixture
def open_folder() -> Generator[Path]:
    """A folder that every user may enter, unlike those of pytest."""
    folder = Path(tempfile.mkdtemp(prefix="gristmill-listing-"))
    folder.chmod(0o755)
    yield folder
    for path in folder.rglob("*"):
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o755)
    shutil.rmtree(folder)


async def test_files_come_with_their_size_and_folders_with_their_contents(tmp_path: Path) -> None:
    write_files(tmp_path, "a.txt", "sub/b.txt")
    file = DirectoryEntry("file", tmp_path / "sub/b.txt", "b.txt", 9)
    assert await list_entries(tmp_path) == [
        DirectoryEntry("file", tmp_path / "a.txt", "a.txt", 5),
        DirectoryEntry("directory", tmp_path / "sub", "sub", contents=FolderContents([file])),
    ]


async def test_a_tree_that_does_not_fit_in_a_batch_is_in_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that one job lists many small folders: each needs neither a job nor transactions of its own."""
    monkeypatch.setattr(directory, "TREE_BATCH", 6)
    write_files(tmp_path, "a", "large/1", "large/2", "large/3", "large/4", "small/b", "small/deep/c")
    batches = [batch async for batch in list_folder(tmp_path, IgnoreRules(), tmp_path)]
    assert [[entry.name for entry in batch] for batch in batches] == [["a", "large"], ["small"]]
    assert [_paths_below(entry) for batch in batches for entry in batch] == [
        [],
        ["large/1", "large/2", "large/3", "large/4"],
        ["small/b", "small/deep", "small/deep/c"],
    ]


async def test_of_a_tree_larger_than_a_batch_what_does_not_fit_is_listed_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A subfolder is entered as a whole, or not at all; one that is too large by its own entries is not entered."""
    monkeypatch.setattr(directory, "TREE_BATCH", 8)
    write_files(tmp_path, "wide/1", *(f"top/{name}" for name in ("a/1", "a/2", "b/1", "b/2", "c/1", "c/2")))
    write_files(tmp_path, *(f"wide/{number}" for number in range(9)))
    entries = {entry.name: entry for entry in await list_entries(tmp_path)}
    assert entries["wide"].contents is None
    assert _paths_below(entries["top"]) == [
        "top/a",
        "top/a/1",
        "top/a/2",
        "top/b",
        "top/b/1",
        "top/b/2",
        "top/c",
    ]


async def test_a_folder_that_is_nested_very_deeply_is_listed_by_itself(tmp_path: Path) -> None:
    """Trees of any depth are listed: a job for every 64 levels."""
    write_files(tmp_path, "/".join(["d"] * 200) + "/file")
    (entry,) = await list_entries(tmp_path)
    depth = 1
    while entry.contents is not None:
        (entry,) = entry.contents.entries
        depth += 1
    assert (entry.kind, depth) == ("directory", 65)


def _paths_below(folder: DirectoryEntry) -> list[str]:
    """The paths of everything in a folder, relative to the folder that contains it."""
    entries = folder.contents.entries if folder.contents is not None else []
    below = [path for entry in entries for path in [entry.name, *_paths_below(entry)]]
    return [f"{folder.name}/{path}" for path in below]


async def test_a_subfolder_that_cannot_be_listed_has_no_contents(tmp_path: Path) -> None:
    """A listing of that folder alone raises the error."""
    write_files(tmp_path, "sub/a", "other/b")
    (tmp_path / "sub" / IGNORE_FILE).mkdir()
    entries = {entry.name: entry for entry in await list_entries(tmp_path)}
    assert entries["sub"].contents is None
    assert entries["other"].contents is not None
    with pytest.raises(WorkError):
        await list_entries(tmp_path / "sub", root=tmp_path)


async def test_every_level_of_a_tree_is_reached_folder_by_folder(tmp_path: Path) -> None:
    """C9: recursive."""
    write_files(tmp_path, "a", "one/b", "one/two/c", "one/two/three/d")
    assert await list_tree(tmp_path, IgnoreRules()) == {"a", "one/b", "one/two/c", "one/two/three/d"}


async def test_an_empty_folder_gives_nothing(tmp_path: Path) -> None:
    assert [batch async for batch in list_folder(tmp_path, IgnoreRules(), tmp_path)] == []


async def test_a_batch_is_never_longer_than_asked_and_sorted_by_name(tmp_path: Path) -> None:
    write_files(tmp_path, *(f"{number:03}" for number in range(25)))
    batches = [batch async for batch in list_folder(tmp_path, IgnoreRules(), tmp_path, batch=10)]
    assert [len(batch) for batch in batches] == [10, 10, 5]
    assert all(batch == sorted(batch, key=lambda entry: entry.name) for batch in batches)
    again = [batch async for batch in list_folder(tmp_path, IgnoreRules(), tmp_path, batch=10)]
    assert again == batches


async def test_a_link_to_a_file_is_that_file_and_one_to_a_folder_is_left_out(tmp_path: Path) -> None:
    write_files(tmp_path, "real/file.txt")
    (tmp_path / "link.txt").symlink_to(tmp_path / "real/file.txt")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "real/up").symlink_to("..")
    assert await entry_names(tmp_path) == ["link.txt", "real"]
    assert await list_tree(tmp_path, IgnoreRules()) == {"link.txt", "real/file.txt"}
    assert (await list_entries(tmp_path))[0].size == len("real/file.txt")


async def test_a_broken_link_is_listed_with_an_error(tmp_path: Path) -> None:
    """S4-57."""
    write_files(tmp_path, "a", "z")
    (tmp_path / "broken").symlink_to(tmp_path / "nowhere")
    (tmp_path / "itself").symlink_to(tmp_path / "itself")
    (tmp_path / "under a file").symlink_to(tmp_path / "a" / "b")
    errors = {entry.name: entry.error for entry in await list_entries(tmp_path)}
    assert errors["a"] is errors["z"] is None
    for name in ("broken", "itself", "under a file"):
        error = errors[name]
        assert isinstance(error, SourceGone)
        assert error.code == "broken_link"


async def test_an_entry_without_permission_is_listed_with_an_error(open_folder: Path) -> None:
    """S4-57."""
    write_files(open_folder, "a.txt", "closed/inside.txt", "open/inside.txt")
    (open_folder / "into").symlink_to(open_folder / "closed" / "inside.txt")
    (open_folder / "closed").chmod(0)
    write_files(open_folder, "secret.txt")
    (open_folder / "secret.txt").chmod(0)
    with as_unprivileged_user():
        entries = {entry.name: entry for entry in await list_entries(open_folder)}
    assert (entries["a.txt"].error, entries["open"].error) == (None, None)
    for name, kind in (("closed", "directory"), ("into", "file"), ("secret.txt", "file")):
        error = entries[name].error
        assert entries[name].kind == kind
        assert isinstance(error, Unreadable)
        assert error.code == "permission_denied"


def missing(path: Path) -> None:
    pass


def a_file(path: Path) -> None:
    path.write_text("x")


def closed(path: Path) -> None:
    path.mkdir(mode=0)


def replaced_by_a_link(path: Path) -> None:
    path.symlink_to("/")


@pytest.mark.parametrize(
    ("make", "kind", "code"),
    [
        (missing, SourceGone, "source_gone"),
        (a_file, Unreadable, "not_a_folder"),
        (closed, Unreadable, "permission_denied"),
        (replaced_by_a_link, Unreadable, "not_a_folder"),
    ],
)
async def test_a_folder_that_cant_be_listed_raises(
    make: Callable[[Path], None], kind: type[WorkError], code: str, open_folder: Path
) -> None:
    path = open_folder / "sub"
    make(path)
    with as_unprivileged_user(), pytest.raises(kind, match="sub") as caught:
        await list_entries(path, root=open_folder)
    assert caught.value.code == code


async def test_the_root_may_be_a_link(tmp_path: Path) -> None:
    write_files(tmp_path, "real/a")
    (tmp_path / "root").symlink_to(tmp_path / "real")
    assert await entry_names(tmp_path / "root") == ["a"]


async def test_pipes_and_sockets_are_left_out(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as bound:
        here = Path.cwd()
        os.chdir(tmp_path)  # the name of a socket is at most 108 bytes long
        bound.bind("socket")
        os.chdir(here)
        write_files(tmp_path, "a")
        assert await entry_names(tmp_path) == ["a"]


async def test_a_name_that_is_not_utf8_is_made_printable(tmp_path: Path) -> None:
    try:
        write_files(tmp_path, os.fsdecode(b"caf\xe9.txt"))
    except OSError:
        pytest.skip("this file system takes UTF-8 alone")
    write_files(tmp_path, "café.txt")
    first, second = await list_entries(tmp_path)
    assert (first.name, str(first.path)) == ("caf\\xe9.txt", f"{tmp_path}/caf\\xe9.txt")
    assert isinstance(first.error, Unreadable)
    assert first.error.code == "undecodable_name"
    assert first.error.message.encode()
    assert (second.name, second.error) == ("café.txt", None)


async def test_an_entry_that_cant_be_inspected_now_is_listed_without_its_size(
    tmp_path: Path,
) -> None:
    """S4-57: the error may pass, and reading the entry retries. What a rule excludes stays excluded."""
    (tmp_path / "far").symlink_to("x" * 300)  # stat fails, neither with ENOENT nor with EACCES
    assert await list_entries(tmp_path) == [DirectoryEntry("file", tmp_path / "far", "far")]
    for pattern in ("far", "far/"):
        assert await list_entries(tmp_path, IgnoreRules((pattern,))) == []


async def test_a_folder_may_change_during_the_listing(tmp_path: Path) -> None:
    """Entries are deleted, renamed and created between the system call that lists them and the inspection."""
    write_files(
        tmp_path, *(f"file{number}" for number in range(300)), *(f"sub{number}/x" for number in range(50))
    )
    with faults.watch("directory.opened", hold=True) as fault:
        task = asyncio.create_task(list_entries(tmp_path))
        await fault.passed.wait()
        for number in range(0, 300, 3):
            (tmp_path / f"file{number}").unlink()
            (tmp_path / f"file{number + 1}").replace(tmp_path / f"new{number}")
        for number in range(50):
            shutil.rmtree(tmp_path / f"sub{number}")
        fault.hold.set()
        entries = await task
    assert {f"file{number}" for number in range(2, 300, 3)} <= {entry.name for entry in entries}
    assert [entry for entry in entries if entry.error is not None] == []


async def test_entries_deleted_between_two_batches_are_skipped(tmp_path: Path) -> None:
    write_files(tmp_path, *(f"file{number:03}" for number in range(100)))
    entries_read: list[DirectoryEntry] = []
    async with aclosing(list_folder(tmp_path, IgnoreRules(), tmp_path, batch=10)) as batches:
        async for batch in batches:
            entries_read += batch
            shutil.rmtree(tmp_path)
    assert len(entries_read) == 10


async def test_a_folder_removed_and_replaced_by_a_link_is_not_followed(tmp_path: Path) -> None:
    write_files(tmp_path, "root/sub/a", "secret/b")
    with faults.watch("directory.opened", hold=True) as fault:
        task = asyncio.create_task(entry_names(tmp_path / "root/sub", root=tmp_path / "root"))
        await fault.passed.wait()
        (tmp_path / "root/sub").rename(tmp_path / "root/old")
        (tmp_path / "root/sub").symlink_to(tmp_path / "secret")
        fault.hold.set()
        assert await task == ["a"]


async def test_the_event_loop_runs_while_a_large_folder_is_listed(tmp_path: Path) -> None:
    write_files(tmp_path, *(str(number) for number in range(300)))
    iterations = 0

    async def count() -> None:
        nonlocal iterations
        while True:
            iterations += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    assert len(await list_entries(tmp_path)) == 300
    counting.cancel()
    assert iterations > 10


async def test_memory_does_not_grow_with_the_folder(tmp_path: Path) -> None:
    for number in range(20_000):
        os.close(os.open(f"{tmp_path}/{number:08}.txt", os.O_CREAT))
    count, sizes = 0, list[int]()
    here = [
        tracemalloc.Filter(True, directory.__file__)
    ]  # elsewhere, others allocate: threads, the table of interned strings
    tracemalloc.start()
    try:
        async for batch in list_folder(tmp_path, IgnoreRules(), tmp_path):
            count += len(batch)
            if count % 5_000 == 0:
                statistics = tracemalloc.take_snapshot().filter_traces(here).statistics("filename")
                sizes.append(sum(entry.size for entry in statistics))
    finally:
        tracemalloc.stop()
    assert count == 20_000
    assert len(sizes) == 4
    assert 0 < max(sizes) < 2**20  # 0.2 MiB, or 4.6 if all entries were in memory


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="what is open can be looked up on Linux alone")
async def test_a_listing_that_is_closed_early_closes_its_folder(tmp_path: Path) -> None:
    write_files(tmp_path, *(str(number) for number in range(10)))
    async with aclosing(list_folder(tmp_path, IgnoreRules(), tmp_path, batch=1)) as batches:
        async for _ in batches:
            assert open_files_below(tmp_path)
            break
    assert open_files_below(tmp_path) == []


def open_files_below(folder: Path) -> list[str]:
    """What this process has open of a folder."""
    targets: list[str] = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # closed meanwhile by another thread
            targets.append(str(descriptor.readlink()))
    return [target for target in targets if target.startswith(str(folder))]
