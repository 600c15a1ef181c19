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
def allowed(tmp_path: Path) -> Path:
    folder = tmp_path / "allowed"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.txt").write_text("inside")
    (folder / "sub/b.txt").write_text("deep inside")
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "own").mkdir()
    (tmp_path / "own/secret.key").write_text("key")
    return folder


@pytest.fixture
def confined(allowed: Path, tmp_path: Path) -> DiskAccess:
    return DiskAccess((allowed,), (*SYSTEM_FOLDERS, tmp_path / "own"))


def content(access: DiskAccess, path: Path) -> str:
    with os.fdopen(access.open_file(path), "rb") as file:
        return file.read().decode()


def test_files_below_an_allowed_folder_are_opened(allowed: Path, confined: DiskAccess) -> None:
    assert content(confined, allowed / "a.txt") == "inside"
    assert content(confined, allowed / "sub/b.txt") == "deep inside"
    (allowed / "relative").symlink_to("sub/b.txt")
    (allowed / "absolute").symlink_to(allowed / "sub")
    assert content(confined, allowed / "relative") == "deep inside"
    assert content(confined, allowed / "absolute/b.txt") == "deep inside"
    assert content(confined, allowed / "sub/../a.txt") == "inside"


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
    allowed: Path, confined: DiskAccess, target: str | None, path: str
) -> None:
    if target is not None:
        link(allowed / "link", target)
    link(allowed / "second", path)
    for outside in (allowed / path, allowed / "second"):
        with pytest.raises(PathNotAllowed):
            confined.open_file(outside)
        with pytest.raises(PathNotAllowed):
            confined.check(outside)


def link(path: Path, target: str) -> Path:
    path.symlink_to(target)
    return path


@pytest.mark.parametrize("kind", ["confined", "everywhere"])
def test_protected_folders_are_never_opened(allowed: Path, tmp_path: Path, kind: str) -> None:
    own = tmp_path / "own"
    access = DiskAccess((tmp_path, Path("/")) if kind == "confined" else None, (*SYSTEM_FOLDERS, own))
    for path in (
        own / "secret.key",
        allowed / ".." / "own" / "secret.key",
        link(allowed / "file", "../own/secret.key"),
        link(allowed / "folder", "../own") / "secret.key",
        own / "not-yet-there",
        Path("/proc/self/environ"),
        Path("/proc/self/root") / str(own)[1:] / "secret.key",
        Path("/dev/stdin"),
        link(allowed / "environ", "/proc/self/environ"),
    ):
        with pytest.raises(PathNotAllowed):
            access.open_file(path)
        with pytest.raises(PathNotAllowed):
            access.check(path)
    with pytest.raises(PathNotAllowed):
        access.open_folder(own)
    assert content(access, tmp_path / "secret.txt") == "secret"


async def test_a_file_replaced_by_a_link_after_the_check_is_not_read(
    allowed: Path, confined: DiskAccess
) -> None:
    confined.check(allowed / "a.txt")
    (allowed / "a.txt").unlink()
    link(allowed / "a.txt", "../secret.txt")
    with pytest.raises(PathNotAllowed):
        await FileSource(allowed / "a.txt", 1 << 30, confined).read()


async def test_a_large_confined_file_is_read_from_a_copy(
    allowed: Path, confined: DiskAccess, tmp_path: Path
) -> None:
    """The readers open it later: by then, the file could be a link."""
    data = b"x" * (MAX_IN_MEMORY + 1)
    (allowed / "large.txt").write_bytes(data)
    original = await FileSource(allowed / "large.txt", 1 << 30, confined, tmp_path).read()
    (allowed / "large.txt").unlink()
    link(allowed / "large.txt", "../secret.txt")
    assert original.temporary
    with original.open() as file:
        assert file.read() == data


async def test_a_listing_leaves_out_protected_folders_and_links_to_the_outside(
    allowed: Path, tmp_path: Path, confined: DiskAccess
) -> None:
    link(allowed / "secret", "../secret.txt")
    link(allowed / "nothing", "../does-not-exist.txt")
    link(allowed / "inside", "sub/b.txt")
    link(allowed / "key", "../own/secret.key")
    assert await names(allowed, confined) == (["a.txt", "inside", "sub"], {"link_outside": 3})
    everywhere = confined.unconfined()
    assert await names(allowed, everywhere) == (
        ["a.txt", "inside", "nothing", "secret", "sub"],
        {"link_outside": 1},
    )
    assert await names(tmp_path, everywhere) == (["allowed", "secret.txt"], {"protected_folder": 1})


async def test_a_folder_replaced_by_a_link_is_not_listed(allowed: Path, confined: DiskAccess) -> None:
    (allowed / "sub/b.txt").unlink()
    (allowed / "sub").rmdir()
    link(allowed / "sub", "..")
    with pytest.raises(Unreadable):
        await names(allowed / "sub", confined, root=allowed)
    with pytest.raises(PathNotAllowed):
        await names(allowed / "sub", confined)


async def test_what_is_no_file_is_said_plainly(allowed: Path, confined: DiskAccess) -> None:
    os.mkfifo(allowed / "pipe")
    for name in ("sub", "pipe"):
        with pytest.raises(Unreadable, match="is not a file") as error:
            await FileSource(allowed / name, 1 << 30, confined).probe()
        assert error.value.code == "not_a_file"
    with pytest.raises(SourceGone):
        await FileSource(allowed / "gone", 1 << 30, confined).probe()
    link(allowed / "loop", "loop")
    with pytest.raises(Unreadable):
        await FileSource(allowed / "loop", 1 << 30, confined).probe()


async def names(path: Path, access: DiskAccess, root: Path | None = None) -> tuple[list[str], dict[str, int]]:
    left_out = Counter[str]()
    batches = list_folder(path, IgnoreRules(), root or path, left_out, access=access)
    entries = [entry.name async for batch in batches for entry in batch]
    return sorted(entries), dict(left_out)
