"""The operating system's watch: what it reports of folders with links, of files that are being written, and of changes that it loses."""

import errno
import os
import shutil
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from gristmill.ingest.refresh import inotify, system_watch
from gristmill.ingest.refresh.inotify import Inotify
from gristmill.ingest.refresh.recursive_watch import RecursiveWatch
from gristmill.ingest.refresh.system_watch import SystemWatch
from tests.ingest.refresh.refusing_system import RefusingSystem
from tests.wait_until import wait_until

only_linux = pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")


@pytest.fixture
def reported() -> set[Path]:
    """The paths that were reported."""
    return set()


@pytest.fixture
async def watch(docs: Path, reported: set[Path]) -> AsyncGenerator[SystemWatch]:
    """A watch of the folder `docs`, beside which is a folder that a link in it leads to."""
    (docs / "deep/inner").mkdir()
    docs.with_name("outside").mkdir()
    for name in ("current", "latest", "zero"):
        (docs / name).symlink_to("deep")
    (docs / "out").symlink_to(docs.with_name("outside"))
    started = await SystemWatch.start([docs], reported.update)
    yield started
    await started.stop()


async def wait_for(reported: set[Path], *paths: Path) -> set[Path]:
    """Wait until these paths were reported; all that were since the last wait."""

    async def are_reported() -> bool:
        return reported.issuperset(paths)

    await wait_until(are_reported)
    changed = set(reported)
    reported.clear()
    return changed


@only_linux
@pytest.mark.usefixtures("watch")
async def test_links_to_folders_are_not_followed_and_hide_no_changes(docs: Path, reported: set[Path]) -> None:
    """The system knows a folder by one number, whatever path leads to it."""
    (docs / "deep/new.md").write_text("oats")
    await wait_for(reported, docs / "deep/new.md")
    for name in ("current", "latest", "zero"):
        (docs / name).unlink()
    await wait_for(reported, *(docs / name for name in ("current", "latest", "zero")))
    (docs.with_name("outside") / "new.md").write_text("oats")
    (docs / "deep/later.md").write_text("oats")
    assert await wait_for(reported, docs / "deep/later.md") == {docs / "deep/later.md"}


@only_linux
async def test_a_folder_that_was_added_twice_is_reported_by_each_path(
    watch: SystemWatch, docs: Path, reported: set[Path]
) -> None:
    """By a link, and as a part of another one."""
    await watch.follow([docs, docs / "latest", docs / "deep"])
    (docs / "deep/new.md").write_text("oats")
    await wait_for(reported, docs / "deep/new.md", docs / "latest/new.md")
    await watch.follow([docs])
    (docs / "deep/later.md").write_text("oats")
    assert docs / "latest/later.md" not in await wait_for(reported, docs / "deep/later.md")


@only_linux
@pytest.mark.usefixtures("watch")
async def test_what_is_never_indexed_is_not_watched(docs: Path, reported: set[Path]) -> None:
    """Each commit changes hundreds of files of version control."""
    (docs / "deep/.git/refs").mkdir(parents=True)
    await wait_for(reported, docs / "deep/.git")
    (docs / "deep/.git/refs/main").write_text("1")
    (docs / "deep/new.md").write_text("oats")
    assert await wait_for(reported, docs / "deep/new.md") == {docs / "deep/new.md"}


@only_linux
@pytest.mark.usefixtures("watch")
async def test_new_and_moved_folders_are_watched_where_they_are(docs: Path, reported: set[Path]) -> None:
    (docs / "a/b").mkdir(parents=True)
    await wait_for(reported, docs / "a")
    (docs / "a/b/new.md").write_text("oats")
    await wait_for(reported, docs / "a/b/new.md")
    (docs / "a").rename(docs / "moved")
    await wait_for(reported, docs / "a", docs / "moved")
    (docs / "moved/b/later.md").write_text("oats")
    assert docs / "a/b/later.md" not in await wait_for(reported, docs / "moved/b/later.md")


@only_linux
@pytest.mark.usefixtures("watch")
async def test_a_file_is_reported_when_it_is_closed_or_nothing_more_is_written(
    docs: Path, reported: set[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not while it is copied."""
    monkeypatch.setattr(inotify, "SETTLED", 1e9)
    with (docs / "copy.pdf").open("w") as file:
        for number in range(3):
            print("half of it", file=file, flush=True)
            (docs / f"{number}.md").write_text("oats")
            assert docs / "copy.pdf" not in await wait_for(reported, docs / f"{number}.md")
    await wait_for(reported, docs / "copy.pdf")
    monkeypatch.setattr(inotify, "SETTLED", 0)
    with (docs / "open.log").open("w") as file:
        print("a line", file=file, flush=True)
        await wait_for(reported, docs / "open.log")


@only_linux
async def test_a_folder_that_is_there_again_is_outdated_though_it_has_the_same_number(
    watch: SystemWatch, docs: Path, reported: set[Path]
) -> None:
    """File systems give the number of a deleted folder to the next one."""
    shutil.rmtree(docs)
    await wait_for(reported, docs)
    assert await watch.find_outdated() == []
    (docs.parent / docs.name).mkdir()
    assert await watch.find_outdated() == [docs]
    await watch.renew(docs)
    assert await watch.find_outdated() == []
    (docs / "new.md").write_text("oats")
    await wait_for(reported, docs / "new.md")
    shutil.move(docs, docs.with_name("away"))
    await wait_for(reported, docs)
    shutil.move(docs.with_name("away"), docs)
    assert await watch.find_outdated() == [docs], "nobody knows what changed meanwhile"


@only_linux
def test_changes_that_the_system_has_lost_are_noticed(docs: Path) -> None:
    """Its queue is limited. New folders among them are watched all the same."""
    notifier = Inotify()
    notifier.add(str(docs))
    try:
        limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
        one, other = docs / "a.md", docs / "deep/b.md"
        for _ in range(limit // 2 + 1):  # equal ones in a row are one
            os.utime(one)
            os.utime(other)
        (docs / "new").mkdir()
        assert str(docs) in notifier.wait()
        (docs / "new/c.md").write_text("oats")
        assert str(docs / "new/c.md") in notifier.wait()
    finally:
        notifier.close()


@only_linux
def test_a_folder_that_may_not_be_watched_does_not_hide_the_others(docs: Path) -> None:
    """Where the system has no room, the whole folder is refused: a part of it would be taken for all."""
    for number in range(8):
        (docs / f"{number}/inner").mkdir(parents=True)
    notifier = Inotify(RefusingSystem(errno.EACCES, "3", "deep"))
    try:
        notifier.add(str(docs))
        saved = {docs / f"{number}/inner/new.md" for number in range(8) if number != 3}
        for path in saved:
            path.write_text("oats")
        assert notifier.wait() == set(map(str, saved))
    finally:
        notifier.close()
    notifier = Inotify(RefusingSystem(errno.ENOSPC, "inner"))
    try:
        with pytest.raises(OSError, match="limit of watched folders"):
            notifier.add(str(docs))
        notifier.add(str(docs / "deep"))
        (docs / "a.md").write_text("oats")
        (docs / "deep/inner").mkdir()
        assert notifier.wait() == {str(docs / "deep"), str(docs / "deep/inner")}
        assert notifier.ended == {str(docs / "deep")}, "there is no room for a new folder in it"
    finally:
        notifier.close()


async def test_other_systems_report_by_a_library(docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is started again for each set of folders."""
    monkeypatch.setattr(system_watch, "create_notifier", RecursiveWatch)
    reported = set[Path]()
    watch = await SystemWatch.start([docs / "deep"], reported.update)
    try:
        await watch.follow([docs])
        (docs / "a.md").write_text("oats")
        await wait_for(reported, docs / "a.md")
        await watch.follow([])
        await watch.follow([docs / "deep"])
        (docs / "deep/b.md").write_text("oats")
        await wait_for(reported, docs / "deep/b.md")
    finally:
        await watch.stop()
