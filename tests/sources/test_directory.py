"""Listing one level of a folder, with real files, links and forbidden things."""

import asyncio
import importlib
import os
import shutil
import socket
import tempfile
import tracemalloc
from collections.abc import Callable, Generator, Sequence
from contextlib import aclosing, contextmanager
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill import faults
from gristmill.errors import Invalid, SourceGone, Unreadable, WorkError
from gristmill.sources import IGNORE_FILE, DirectoryEntry, IgnoreRules, directory, list_folder
from gristmill.sources.directory import FolderContents
from gristmill.sources.ignore import BUILT_IN_FILES, BUILT_IN_FOLDERS

UNPRIVILEGED_UID = 65_534


async def list_entries(
    path: Path, rules: IgnoreRules | None = None, root: Path | None = None
) -> list[DirectoryEntry]:
    batches = list_folder(path, rules or IgnoreRules(), root or path)
    return [entry async for batch in batches for entry in batch]


async def names(path: Path, rules: IgnoreRules | None = None, root: Path | None = None) -> list[str]:
    return sorted(entry.name for entry in await list_entries(path, rules, root))


async def tree(root: Path, rules: IgnoreRules) -> set[str]:
    """Every file below `root`, folder by folder, as the expansion of a directory does it."""
    files: set[str] = set()
    folders = [root]
    while folders:
        for entry in await list_entries(folders.pop(), rules, root):
            if entry.kind == "directory":
                folders.append(entry.path)
            else:
                files.add(entry.path.relative_to(root).as_posix())
    return files


def write(root: Path, *paths: str) -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(os.fsencode(path))


@contextmanager
def unprivileged() -> Generator[None]:
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
    write(tmp_path, "a.txt", "sub/b.txt")
    file = DirectoryEntry("file", tmp_path / "sub/b.txt", "b.txt", 9)
    assert await list_entries(tmp_path) == [
        DirectoryEntry("file", tmp_path / "a.txt", "a.txt", 5),
        DirectoryEntry("directory", tmp_path / "sub", "sub", contents=FolderContents([file])),
    ]


async def test_a_batch_enters_the_folders_that_fit_level_by_level(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder of which only a part would fit is listed by itself."""
    monkeypatch.setattr(directory, "TREE_BATCH", 6)
    write(tmp_path, "a", "large/1", "large/2", "large/3", "large/4", "small/b", "small/deep/c")
    large, small = (entry for entry in await list_entries(tmp_path) if entry.kind == "directory")
    assert large.contents is None
    assert small.contents is not None
    deep = small.contents.entries[1]
    assert deep.contents is not None
    assert [entry.name for entry in deep.contents.entries] == ["c"]


async def test_a_subfolder_that_cannot_be_listed_has_no_contents(tmp_path: Path) -> None:
    """Whoever lists it by itself gets the error."""
    write(tmp_path, "sub/a", "other/b")
    (tmp_path / "sub" / IGNORE_FILE).mkdir()
    entries = {entry.name: entry for entry in await list_entries(tmp_path)}
    assert entries["sub"].contents is None
    assert entries["other"].contents is not None
    with pytest.raises(WorkError):
        await list_entries(tmp_path / "sub", root=tmp_path)


async def test_every_level_of_a_tree_is_reached_folder_by_folder(tmp_path: Path) -> None:
    """C9: recursive."""
    write(tmp_path, "a", "one/b", "one/two/c", "one/two/three/d")
    assert await tree(tmp_path, IgnoreRules()) == {"a", "one/b", "one/two/c", "one/two/three/d"}


async def test_an_empty_folder_gives_nothing(tmp_path: Path) -> None:
    assert [batch async for batch in list_folder(tmp_path, IgnoreRules(), tmp_path)] == []


async def test_a_batch_is_never_longer_than_asked_and_sorted_by_name(tmp_path: Path) -> None:
    write(tmp_path, *(f"{number:03}" for number in range(25)))
    batches = [batch async for batch in list_folder(tmp_path, IgnoreRules(), tmp_path, batch=10)]
    assert [len(batch) for batch in batches] == [10, 10, 5]
    assert all(batch == sorted(batch, key=lambda entry: entry.name) for batch in batches)
    again = [batch async for batch in list_folder(tmp_path, IgnoreRules(), tmp_path, batch=10)]
    assert again == batches


async def test_a_link_to_a_file_is_that_file_and_one_to_a_folder_is_left_out(tmp_path: Path) -> None:
    write(tmp_path, "real/file.txt")
    (tmp_path / "link.txt").symlink_to(tmp_path / "real/file.txt")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "real/up").symlink_to("..")
    assert await names(tmp_path) == ["link.txt", "real"]
    assert await tree(tmp_path, IgnoreRules()) == {"link.txt", "real/file.txt"}
    assert (await list_entries(tmp_path))[0].size == len("real/file.txt")


async def test_a_broken_link_is_listed_with_an_error(tmp_path: Path) -> None:
    """S4-57."""
    write(tmp_path, "a", "z")
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
    write(open_folder, "a.txt", "closed/inside.txt", "open/inside.txt")
    (open_folder / "into").symlink_to(open_folder / "closed" / "inside.txt")
    (open_folder / "closed").chmod(0)
    with unprivileged():
        entries = {entry.name: entry for entry in await list_entries(open_folder)}
    assert (entries["a.txt"].error, entries["open"].error) == (None, None)
    for name, kind in (("closed", "directory"), ("into", "file")):
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
    with unprivileged(), pytest.raises(kind, match="sub") as caught:
        await list_entries(path, root=open_folder)
    assert caught.value.code == code


async def test_the_root_may_be_a_link(tmp_path: Path) -> None:
    write(tmp_path, "real/a")
    (tmp_path / "root").symlink_to(tmp_path / "real")
    assert await names(tmp_path / "root") == ["a"]


async def test_pipes_and_sockets_are_left_out(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as bound:
        here = Path.cwd()
        os.chdir(tmp_path)  # the name of a socket is at most 108 bytes long
        bound.bind("socket")
        os.chdir(here)
        write(tmp_path, "a")
        assert await names(tmp_path) == ["a"]


async def test_a_name_that_is_not_utf8_is_made_printable(tmp_path: Path) -> None:
    try:
        write(tmp_path, os.fsdecode(b"caf\xe9.txt"))
    except OSError:
        pytest.skip("this file system takes UTF-8 alone")
    write(tmp_path, "café.txt")
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
    write(tmp_path, *(f"file{number}" for number in range(300)), *(f"sub{number}/x" for number in range(50)))
    with faults.watch("directory.opened", hold=True) as opened:
        task = asyncio.create_task(list_entries(tmp_path))
        await opened.passed.wait()
        for number in range(0, 300, 3):
            (tmp_path / f"file{number}").unlink()
            (tmp_path / f"file{number + 1}").replace(tmp_path / f"new{number}")
        for number in range(50):
            shutil.rmtree(tmp_path / f"sub{number}")
        opened.hold.set()
        entries = await task
    assert {f"file{number}" for number in range(2, 300, 3)} <= {entry.name for entry in entries}
    assert [entry for entry in entries if entry.error is not None] == []


async def test_entries_deleted_between_two_batches_are_skipped(tmp_path: Path) -> None:
    write(tmp_path, *(f"file{number:03}" for number in range(100)))
    seen: list[DirectoryEntry] = []
    async with aclosing(list_folder(tmp_path, IgnoreRules(), tmp_path, batch=10)) as batches:
        async for batch in batches:
            seen += batch
            shutil.rmtree(tmp_path)
    assert len(seen) == 10


async def test_a_folder_removed_and_replaced_by_a_link_is_not_followed(tmp_path: Path) -> None:
    write(tmp_path, "root/sub/a", "secret/b")
    with faults.watch("directory.opened", hold=True) as opened:
        task = asyncio.create_task(names(tmp_path / "root/sub", root=tmp_path / "root"))
        await opened.passed.wait()
        (tmp_path / "root/sub").rename(tmp_path / "root/old")
        (tmp_path / "root/sub").symlink_to(tmp_path / "secret")
        opened.hold.set()
        assert await task == ["a"]


async def test_the_event_loop_runs_while_a_large_folder_is_listed(tmp_path: Path) -> None:
    write(tmp_path, *(str(number) for number in range(300)))
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
    count = 0
    tracemalloc.start()
    try:
        async for batch in list_folder(tmp_path, IgnoreRules(), tmp_path):
            count += len(batch)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == 20_000
    # 0.4 MiB, or 8 if all entries were in memory; the rest of the process may allocate too.
    assert peak < 6 * 2**20


async def test_a_listing_that_is_closed_early_closes_its_folder(tmp_path: Path) -> None:
    write(tmp_path, *(str(number) for number in range(10)))
    before = len(os.listdir("/dev/fd"))  # noqa: PTH208
    async with aclosing(list_folder(tmp_path, IgnoreRules(), tmp_path, batch=1)) as batches:
        async for _ in batches:
            break
    assert len(os.listdir("/dev/fd")) == before  # noqa: PTH208


async def test_hidden_entries_are_left_out_unless_asked_for(tmp_path: Path) -> None:
    write(tmp_path, ".env", ".config/settings", "a")
    assert await names(tmp_path) == ["a"]
    assert await names(tmp_path, IgnoreRules(hidden=True)) == [".config", ".env", "a"]


async def test_built_in_patterns_apply_at_any_depth(tmp_path: Path) -> None:
    junk = (
        "node_modules/x.js",
        "__pycache__/x",
        "a.pyc",
        "~$letter.docx",
        "Thumbs.db",
        "x.tmp",
        "film.part",
        ".git/x",
    )
    write(tmp_path, *junk, "letter.docx", *(f"sub/{path}" for path in junk), "sub/letter.docx")
    assert await tree(tmp_path, IgnoreRules(hidden=True)) == {"letter.docx", "sub/letter.docx"}


async def test_patterns_for_files_do_not_match_folders(
    tmp_path: Path,
) -> None:
    write(tmp_path, "second.part/a", "~/b", "x.tmp/c.tmp")
    assert await tree(tmp_path, IgnoreRules()) == {"second.part/a", "~/b"}


async def test_the_callers_patterns_are_relative_to_the_root(tmp_path: Path) -> None:
    write(tmp_path, "a.log", "b.md", "drafts/c.md", "sub/drafts/d.md", "sub/e.log", "build/f", "sub/build/g")
    rules = IgnoreRules(("*.log", "/drafts/", "sub/build"))
    assert await tree(tmp_path, rules) == {"b.md", "sub/drafts/d.md", "build/f"}


async def test_the_patterns_of_a_folder_apply_below_it(tmp_path: Path) -> None:
    write(tmp_path, "top.md", "one/a.md", "one/b.txt", "one/two/c.md", "two/d.md")
    (tmp_path / "one" / IGNORE_FILE).write_text("# of this folder\n*.md\n!c.md\n/two/nothing\n")
    assert await tree(tmp_path, IgnoreRules()) == {"top.md", "one/b.txt", "one/two/c.md", "two/d.md"}
    assert await tree(tmp_path, IgnoreRules(hidden=True)) == {
        "top.md",
        "one/b.txt",
        "one/two/c.md",
        "two/d.md",
    }


async def test_the_nearer_pattern_wins_over_the_farther_and_the_callers_over_all(tmp_path: Path) -> None:
    write(tmp_path, "a.tmp", "b.tmp", "sub/a.tmp", "sub/b.tmp")
    (tmp_path / IGNORE_FILE).write_text("!*.tmp\nb.*\n")
    (tmp_path / "sub" / IGNORE_FILE).write_text("!b.tmp\n")
    assert await tree(tmp_path, IgnoreRules()) == {"a.tmp", "sub/a.tmp", "sub/b.tmp"}
    assert await tree(tmp_path, IgnoreRules(("sub/b.tmp",))) == {"a.tmp", "sub/a.tmp"}


async def test_entries_of_an_ignored_folder_cant_be_included_again(tmp_path: Path) -> None:
    write(tmp_path, "out/a", "in/a")
    assert await tree(tmp_path, IgnoreRules(("out/", "!out/a"))) == {"in/a"}


@pytest.mark.parametrize(
    "rules",
    [b"fine\n!\n", b"[z-a]", b"*a*a*a*b", b"**/a/**/b/**", b"caf\xe9", b"x\n" * 600_000, None],
    ids=["no pattern", "no range", "many stars", "many double stars", "not UTF-8", "too long", "a folder"],
)
async def test_an_invalid_ignore_file_fails_the_folder(rules: bytes | None, tmp_path: Path) -> None:
    write(tmp_path, "secret", "sub/secret")
    if rules is None:
        (tmp_path / IGNORE_FILE).mkdir()
    else:
        (tmp_path / IGNORE_FILE).write_bytes(rules)
    for path in (tmp_path, tmp_path / "sub"):
        with pytest.raises(Unreadable, match=IGNORE_FILE) as caught:
            await list_entries(path, root=tmp_path)
        assert caught.value.code == "bad_ignore_file"


@pytest.mark.parametrize("pattern", ["!", "\\", "[z-a]", "*a*a*a*a*a*b", "x" * 2000])
def test_an_invalid_pattern_of_the_caller_is_refused(pattern: str) -> None:
    with pytest.raises(Invalid) as caught:
        IgnoreRules((pattern,))
    assert caught.value.code == "invalid_pattern"


_NAMES = st.text(
    st.characters(categories=["L", "N"], include_characters="._- ~"), min_size=1, max_size=12
).filter(lambda name: name not in (".", "..") and len(name.encode()) < 100)
_TREES = st.lists(st.lists(_NAMES, min_size=1, max_size=4), max_size=12)


@settings(max_examples=40, deadline=None)
@given(paths=_TREES, hidden=st.booleans())
def test_a_listing_is_what_a_walk_finds_less_what_is_left_out(paths: list[list[str]], hidden: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for steps in paths:
            if not any((root.joinpath(*steps[:depth])).is_file() for depth in range(len(steps))):
                path = root.joinpath(*steps)
                path.parent.mkdir(parents=True, exist_ok=True)
                if not path.exists():
                    path.write_text("x")
        expected: set[str] = set()
        for where, folders, files in os.walk(root):
            folders[:] = [name for name in folders if _wanted(name, hidden, BUILT_IN_FOLDERS)]
            included = (Path(where) / name for name in files if _wanted(name, hidden, BUILT_IN_FILES))
            expected |= {path.relative_to(root).as_posix() for path in included}
        assert asyncio.run(tree(root, IgnoreRules(hidden=hidden))) == expected


def _wanted(name: str, hidden: bool, patterns: Sequence[str]) -> bool:
    if name.startswith(".") and not hidden:
        return False
    return not any(fnmatchcase(name, pattern) for pattern in patterns)
