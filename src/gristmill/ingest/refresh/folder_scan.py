"""Compare the tree of a folder with its items, without reading a file: only what the operating system says of each counts.

Folders are read in groups, from the top downwards. What differs is written batch by batch (`folder_changes.py`); what is missing
is removed last, so that a file which was moved is found at its new place before it is missed at the old one. Only what differs
is held in memory. Killed anywhere: the next comparison finds what is left. Folders that are being listed are passed over: their
listing files what is in them, and to write it here would hold up all workers of the base by its lock.

A folder that can't be read keeps its items. So does one that is suddenly empty and on another device than its files were: its disk is not
mounted.
"""

import os
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from gristmill import catalog
from gristmill.catalog import Item, ItemId, exclusions, folder_tree
from gristmill.catalog.folder_tree import ListedChild
from gristmill.db import Database
from gristmill.errors import SourceGone, Unreadable, WorkError
from gristmill.ingest.refresh.folder_changes import FolderChanges, FolderWriter, Guard
from gristmill.ingest.source_changes import ChangeCounts, Interrupted
from gristmill.jobs import Priority
from gristmill.operations.source_factory import disk_access
from gristmill.sources import threads
from gristmill.sources.directory import DirectoryEntry, FolderContents, read_folders
from gristmill.sources.disk import DiskAccess
from gristmill.sources.ignore import IgnoreRules, is_left_out

_FOLDERS_PER_READ = 32
BATCH = 500  # entries in one transaction


@dataclass(frozen=True)
class _OpenFolder:
    """A folder to be read, and its item; None for one that is not filed yet."""

    path: Path
    item_id: ItemId | None


async def folder_rules(db: Database, root: Item) -> IgnoreRules | None:
    """Which entries of a folder's tree are left out; None when its base is gone."""
    async with db.connection() as tx:
        base = await catalog.find_base(tx, root.base_id)
    if base is None:
        return None
    return IgnoreRules((*base.ignore, *root.source.get("ignore", [])), base.include_hidden)


async def refuse_unmounted(db: Database, item_id: ItemId, path: Path) -> None:
    """Raise Unreadable `folder_not_mounted` if an empty folder is on another device than the files that are filed below it."""
    async with db.connection() as tx:
        fingerprint = await folder_tree.find_any_fingerprint(tx, item_id)
    status = await threads.run_blocking(path.stat)
    if fingerprint is not None and fingerprint.partition(":")[0] != str(status.st_dev):
        raise Unreadable(
            f"{path} is empty and on another device than before. Mount its disk again; until then nothing is removed.",
            code="folder_not_mounted",
        )


async def follow_moves(db: Database, root: Item, disk: DiskAccess, guard: Guard, cause: UUID) -> None:
    """Before a folder that people added is listed again: files that were moved since the last time keep their items, and those that people
    deleted here stay deleted. Whatever can't be read is left to the listing."""
    rules = await folder_rules(db, root)
    if rules is None:
        return
    writer = FolderWriter(db, root, guard, cause, before_listing=True)
    with suppress(Interrupted, WorkError):
        await FolderComparison(db, root, rules, disk, writer).compare_all()


class FolderComparison:
    """One comparison of a folder that people added, or of parts of it."""

    def __init__(
        self, db: Database, root: Item, rules: IgnoreRules, disk: DiskAccess, writer: FolderWriter
    ) -> None:
        self._db, self._root, self._rules, self._writer = db, root, rules, writer
        self._access = disk_access(disk, root.source)
        self._top = Path(root.source["path"])
        self._differing: list[DirectoryEntry] = []
        self._gone: list[str] = []
        self._not_mounted: list[Unreadable] = []
        self._counts = ChangeCounts()

    async def compare_all(self) -> ChangeCounts:
        """Compare the whole tree. Raises if the folder itself can't be read; at the end, if a disk below it is not mounted."""
        await self._walk([_OpenFolder(self._top, self._root.id)])
        await self._flush(Priority.BULK)
        await self._remove(Priority.BULK)
        if self._not_mounted:
            raise self._not_mounted[0]
        return self._counts

    async def compare_paths(self, paths: Sequence[Path], priority: Priority) -> list[str]:
        """Compare these paths, and everything below those that are folders. Returns the paths at which there is nothing: they
        may have been moved to a path that is yet to come, so the caller removes them a little later."""
        names: dict[Path, set[str]] = {}
        for path in paths:
            if path == self._top:
                await self._walk([_OpenFolder(self._top, self._root.id)])
            else:
                names.setdefault(path.parent, set()).add(path.name)
        left_out = await threads.run_blocking(
            lambda: {parent for parent in names if is_left_out(self._rules, self._top, parent)}
        )
        folders = [
            (parent, frozenset(children)) for parent, children in names.items() if parent not in left_out
        ]
        contents = await read_folders(folders, self._rules, self._top, self._access)
        subfolders: list[_OpenFolder] = []
        for (parent, children), result in zip(folders, contents, strict=True):
            entries = result.entries if isinstance(result, FolderContents) else []
            if isinstance(result, SourceGone | FolderContents):
                present = {entry.name for entry in entries}
                self._gone += [str(parent / name) for name in children - present]
            self._differing += entries
            subfolders += [
                _OpenFolder(entry.path, None)
                for entry in entries
                if entry.kind == "directory" and entry.error is None
            ]
        await self._walk(await self._with_items(subfolders))
        await self._flush(priority)
        gone, self._gone = self._gone, []
        return gone

    async def remove(self, paths: Sequence[str], priority: Priority) -> ChangeCounts:
        """Remove the items of paths at which there is still nothing. Raises if the folder itself can't be read: then that says
        nothing about what was in it."""
        (contents,) = await read_folders([(self._top, frozenset())], self._rules, self._top, self._access)
        if not isinstance(contents, FolderContents):
            raise contents
        self._gone = await threads.run_blocking(lambda: [path for path in paths if not os.path.lexists(path)])
        await self._remove(priority)
        return self._counts

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────

    async def _walk(self, folders: Sequence[_OpenFolder]) -> None:
        waiting = deque(folders)
        while waiting:
            group = [waiting.popleft() for _ in range(min(len(waiting), _FOLDERS_PER_READ))]
            contents = await read_folders(
                [(folder.path, None) for folder in group], self._rules, self._top, self._access
            )
            waiting.extend(await self._compare(group, contents))
            if len(self._differing) >= BATCH:
                await self._flush(Priority.BULK)

    async def _compare(
        self, group: Sequence[_OpenFolder], contents: Sequence[FolderContents | WorkError]
    ) -> list[_OpenFolder]:
        """Note what differs in folders; the folders below them."""
        async with self._db.connection() as tx:
            parents = [folder.item_id for folder in group if folder.item_id is not None]
            children = await folder_tree.find_listed_children(tx, parents)
            filed: dict[ItemId, dict[tuple[str, str], ListedChild]] = {}
            for child in children:
                filed.setdefault(child.parent_id, {})[child.type, child.source_key] = child
            new = [
                (str(entry.kind), str(entry.path))
                for folder, result in zip(group, contents, strict=True)
                if isinstance(result, FolderContents)
                for entry in result.entries
                if (entry.kind, str(entry.path)) not in _children_of(filed, folder)
            ]
            places = await exclusions.find_excluded(tx, self._root.id, new)
            excluded = {new[place]: fingerprint for place, fingerprint in places.items()}
        below: list[_OpenFolder] = []
        for folder, result in zip(group, contents, strict=True):
            if not isinstance(result, FolderContents):
                if folder.path == self._top:
                    raise result
                continue
            known = _children_of(filed, folder)
            if known and not result.entries and folder.item_id is not None:
                try:
                    await refuse_unmounted(self._db, folder.item_id, folder.path)
                except Unreadable as error:
                    if folder.path == self._top:
                        raise
                    self._not_mounted.append(error)
                    continue
            below += self._compare_folder(result.entries, known, excluded)
        return below

    def _compare_folder(
        self,
        entries: Sequence[DirectoryEntry],
        known: dict[tuple[str, str], ListedChild],
        excluded: Mapping[tuple[str, str], str | None],
    ) -> list[_OpenFolder]:
        below: list[_OpenFolder] = []
        present: set[str] = set()
        for entry in entries:
            key = (entry.kind, str(entry.path))
            present.add(str(entry.path))
            child = known.get(key)
            if key in excluded:
                if entry.kind == "file" and entry.fingerprint not in (None, excluded[key]):
                    self._differing.append(entry)  # to be known by it when it is moved
                continue
            if (
                child is None
                or entry.error is not None
                or child.error_code is not None
                or (entry.kind == "file" and child.fingerprint != entry.fingerprint)
            ):
                self._differing.append(entry)
            if entry.kind == "directory" and entry.error is None and not (child and child.is_being_listed):
                below.append(_OpenFolder(entry.path, child.id if child else None))
        # What is filed as another type than it has now is removed with its entry.
        self._gone += [path for kind, path in known if path not in present and kind != "url"]
        return below

    async def _with_items(self, folders: Sequence[_OpenFolder]) -> list[_OpenFolder]:
        """The folders with their items, as far as they are filed."""
        ids: dict[Path, ItemId] = {self._top: self._root.id}
        ancestors = {path for folder in folders for path in (folder.path, *folder.path.parents)}
        below = [path for path in ancestors if path.is_relative_to(self._top) and path != self._top]
        async with self._db.connection() as tx:
            for depth in sorted({len(path.parts) for path in below}):
                level = [path for path in below if len(path.parts) == depth and path.parent in ids]
                places = [(ids[path.parent], str(path)) for path in level]
                for folder in await folder_tree.find_folders(tx, self._root.base_id, places):
                    ids[Path(folder.source_key)] = folder.id
        return [_OpenFolder(folder.path, ids.get(folder.path)) for folder in folders]

    # ── writing ──────────────────────────────────────────────────────────────────────────────────────────

    async def _flush(self, priority: Priority) -> None:
        """Write what differs. A new folder and a file in it that changed both name that file: it is written once."""
        differing = list({(entry.kind, entry.path): entry for entry in self._differing}.values())
        for start in range(0, len(differing), BATCH):
            entries = differing[start : start + BATCH]
            await self._write(await self._writer.find_changes(entries), priority)
        self._differing = []

    async def _remove(self, priority: Priority) -> None:
        for start in range(0, len(self._gone), BATCH):
            await self._write(FolderChanges(gone=self._gone[start : start + BATCH]), priority)
        self._gone = []

    async def _write(self, changes: FolderChanges, priority: Priority) -> None:
        counts = await self._writer.write(changes, priority)
        if counts is None:
            raise Interrupted
        self._counts.add(counts)


def _children_of(
    filed: dict[ItemId, dict[tuple[str, str], ListedChild]], folder: _OpenFolder
) -> dict[tuple[str, str], ListedChild]:
    return filed.get(folder.item_id, {}) if folder.item_id is not None else {}
