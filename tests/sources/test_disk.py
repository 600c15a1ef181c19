"""Opening paths of the disk, with real files, folders and links."""

import os
from collections import Counter
from pathlib import Path

import pytest

from gristmill.errors import PathNotAllowed, SourceGone, Unreadable
from gristmill.sources import FileSource, IgnoreRules, list_folder
from gristmill.sources.disk import SYSTEM_FOLDERS, DiskAccess
from gristmill.sources.source import MAX_IN_MEMORY


@pytest.fixture
def allowed_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "allowed"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.txt").write_text("inside")
    (folder / "sub/b.txt").write_text("deep inside")
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "own").mkdir()
    (tmp_path / "own/secret.key").write_text("key")
    return folder


@pytest.fixture
def disk(allowed_folder: Path, tmp_path: Path) -> DiskAccess:
    return DiskAccess((allowed_folder,), (*SYSTEM_FOLDERS, tmp_path / "own"))


def content(access: DiskAccess, path: Path) -> str:
    with os.fdopen(access.open_file(path), "rb") as file:
        return file.read().decode()


def test_files_below_an_allowed_folder_are_opened(allowed_folder: Path, disk: DiskAccess) -> None:
    assert content(disk, allowed_folder / "a.txt") == "inside"
    assert content(disk, allowed_folder / "sub/b.txt") == "deep inside"
    (allowed_folder / "relative").symlink_to("sub/b.txt")
    (allowed_folder / "absolute").symlink_to(allowed_folder / "sub")
    assert content(disk, allowed_folder / "relative") == "deep inside"
    assert content(disk, allowed_folder / "absolute/b.txt") == "deep inside"
    assert content(disk, allowed_folder / "sub/../a.txt") == "inside"


@pytest.mark.parametrize(
    ("target", "path"),
    [
        (None, "../secret.txt"),
        (None, "../does-not-exist.txt"),
        ("../secret.txt", "link"),
        ("../does-not-exist.txt", "link"),
        ("..", "link/secret.txt"),
        ("sub/../../", "link/secret.txt"),
        ("/", "link/etc/hosts"),
        ("/etc", "link/hosts"),
        ("/etc/hosts", "link"),
    ],
)
def test_nothing_leads_out_of_the_allowed_folders(
    allowed_folder: Path, disk: DiskAccess, target: str | None, path: str
) -> None:
    if target is not None:
        link(allowed_folder / "link", target)
    link(allowed_folder / "second", path)
    for outside in (allowed_folder / path, allowed_folder / "second"):
        with pytest.raises(PathNotAllowed):
            disk.open_file(outside)
        with pytest.raises(PathNotAllowed):
            disk.check(outside)


def link(path: Path, target: str) -> Path:
    path.symlink_to(target)
    return path


@pytest.mark.parametrize("kind", ["confined", "everywhere"])
def test_protected_folders_are_never_opened(allowed_folder: Path, tmp_path: Path, kind: str) -> None:
    own = tmp_path / "own"
    access = DiskAccess((tmp_path, Path("/")) if kind == "confined" else None, (*SYSTEM_FOLDERS, own))
    for path in (
        own / "secret.key",
        allowed_folder / ".." / "own" / "secret.key",
        link(allowed_folder / "file", "../own/secret.key"),
        link(allowed_folder / "folder", "../own") / "secret.key",
        own / "not-yet-there",
        Path("/proc/self/environ"),
        Path("/proc/self/root") / str(own)[1:] / "secret.key",
        Path("/dev/stdin"),
        link(allowed_folder / "environ", "/proc/self/environ"),
    ):
        with pytest.raises(PathNotAllowed):
            access.open_file(path)
        with pytest.raises(PathNotAllowed):
            access.check(path)
    with pytest.raises(PathNotAllowed):
        access.open_folder(own)
    assert content(access, tmp_path / "secret.txt") == "secret"


async def test_a_file_replaced_by_a_link_after_the_check_is_not_read(
    allowed_folder: Path, disk: DiskAccess
) -> None:
    disk.check(allowed_folder / "a.txt")
    (allowed_folder / "a.txt").unlink()
    link(allowed_folder / "a.txt", "../secret.txt")
    with pytest.raises(PathNotAllowed):
        await FileSource(allowed_folder / "a.txt", 1 << 30, disk).read()


async def test_a_large_confined_file_is_read_from_a_copy(
    allowed_folder: Path, disk: DiskAccess, tmp_path: Path
) -> None:
    """The readers open it later: by then, the file could be a link."""
    data = b"x" * (MAX_IN_MEMORY + 1)
    (allowed_folder / "large.txt").write_bytes(data)
    original = await FileSource(allowed_folder / "large.txt", 1 << 30, disk, tmp_path).read()
    (allowed_folder / "large.txt").unlink()
    link(allowed_folder / "large.txt", "../secret.txt")
    assert original.temporary
    with original.open() as file:
        assert file.read() == data


async def test_a_listing_leaves_out_protected_folders_and_links_to_the_outside(
    allowed_folder: Path, tmp_path: Path, disk: DiskAccess
) -> None:
    link(allowed_folder / "secret", "../secret.txt")
    link(allowed_folder / "nothing", "../does-not-exist.txt")
    link(allowed_folder / "inside", "sub/b.txt")
    link(allowed_folder / "key", "../own/secret.key")
    assert await names(allowed_folder, disk) == (["a.txt", "inside", "sub"], {"link_outside": 3})
    everywhere = disk.unconfined()
    assert await names(allowed_folder, everywhere) == (
        ["a.txt", "inside", "nothing", "secret", "sub"],
        {"link_outside": 1},
    )
    assert await names(tmp_path, everywhere) == (["allowed", "secret.txt"], {"protected_folder": 1})


async def test_a_folder_replaced_by_a_link_is_not_listed(allowed_folder: Path, disk: DiskAccess) -> None:
    (allowed_folder / "sub/b.txt").unlink()
    (allowed_folder / "sub").rmdir()
    link(allowed_folder / "sub", "..")
    with pytest.raises(Unreadable):
        await names(allowed_folder / "sub", disk, root=allowed_folder)
    with pytest.raises(PathNotAllowed):
        await names(allowed_folder / "sub", disk)


async def test_what_is_no_file_is_said_plainly(allowed_folder: Path, disk: DiskAccess) -> None:
    os.mkfifo(allowed_folder / "pipe")
    for name in ("sub", "pipe"):
        with pytest.raises(Unreadable, match="is not a file") as error:
            await FileSource(allowed_folder / name, 1 << 30, disk).probe()
        assert error.value.code == "not_a_file"
    with pytest.raises(SourceGone):
        await FileSource(allowed_folder / "gone", 1 << 30, disk).probe()
    link(allowed_folder / "loop", "loop")
    with pytest.raises(Unreadable):
        await FileSource(allowed_folder / "loop", 1 << 30, disk).probe()


async def names(path: Path, access: DiskAccess, root: Path | None = None) -> tuple[list[str], dict[str, int]]:
    left_out = Counter[str]()
    batches = list_folder(path, IgnoreRules(), root or path, left_out, access=access)
    entries = [entry.name async for batch in batches for entry in batch]
    return sorted(entries), dict(left_out)
