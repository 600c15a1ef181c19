"""Write what differs between a folder on the disk and its items: one transaction per batch of entries, under the base's lock.

    on the disk                                              in the base
    a path that is not filed, a file moved there             the item moves: same id, content and vectors
    a path that is not filed, and no move                    a new item and its job, with the folders above it
    a file with the fingerprint that is filed                nothing, unless it could not be read the last time
    a file with another one, or an entry with another error  a new version and its job
    nothing at a path that is filed                          the item is deleted
    a folder where a file is filed, or the other way round   the item is deleted, and a new one filed

A file moved if an item of the folder has its fingerprint and that item's path is gone. So did one that people deleted here: it
stays deleted. The title of a
moved file with another name is indexed again, and nothing else of it. Everything is looked at again in the transaction, so
that two comparisons of one folder can overlap: what one has written, the other finds done. Entries below a folder that is being
listed are passed over: the listing files them. Before a folder is listed again, moves are written, and nothing else: a listing does not
know them.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from uuid import UUID

from gristmill import catalog, events, faults, jobs
from gristmill.catalog import Base, ExpandedContainer, Item, ItemId, NewItem, exclusions, folder_tree
from gristmill.catalog.exclusions import ExcludedFile
from gristmill.catalog.folder_tree import FileAtPath, FileMove, KnownFolder, ListedChild
from gristmill.db import Database, Tx
from gristmill.events import ContainerExpanded
from gristmill.ingest.source_changes import SOURCE_ERRORS, ChangeCounts
from gristmill.jobs import NewJob, Priority
from gristmill.operations.delete import mark_for_deletion
from gristmill.operations.next_job import enqueue_next_jobs, record_filed_events
from gristmill.operations.quotas import fail_beyond_quota
from gristmill.operations.source_factory import ADDED_LOCALLY
from gristmill.sources import threads
from gristmill.sources.directory import DirectoryEntry
from gristmill.work import IndexTitle

# Proves, in the transaction that writes, that its caller may still write; False: someone else has taken over.
Guard = Callable[[Tx], Awaitable[bool]]


@dataclass(frozen=True)
class FolderChanges:
    """Entries of a folder's tree as they are on the disk, and paths at which there is nothing. `moves` has the items that were
    moved to a path, `excluded_moves` files that people deleted here."""

    entries: Sequence[DirectoryEntry] = ()
    gone: Sequence[str] = ()
    moves: Mapping[Path, FileAtPath] = field(default_factory=dict[Path, FileAtPath])
    excluded_moves: Mapping[Path, ExcludedFile] = field(default_factory=dict[Path, ExcludedFile])

    def moves_alone(self) -> "FolderChanges":
        """The moves among them."""
        moved = [
            entry for entry in self.entries if entry.path in self.moves or entry.path in self.excluded_moves
        ]
        return replace(self, entries=moved, gone=())


class FolderWriter:
    """Writes the changes of one folder that people added; `before_listing`: only the moves, though it is about to be listed."""

    def __init__(
        self, db: Database, root: Item, guard: Guard, cause: UUID, *, before_listing: bool = False
    ) -> None:
        self._db, self._root, self._guard, self._cause = db, root, guard, cause
        self._before_listing = before_listing

    async def write(self, changes: FolderChanges, priority: Priority) -> ChangeCounts | None:
        """Write the changes; None if the folder is gone, is being listed, or belongs to another worker by now."""
        async with self._db.transaction() as tx:
            base = await catalog.lock_base(tx, self._root.base_id)
            if base is None or not await self._guard(tx):
                return None
            root = await folder_tree.find_folder(tx, self._root.id)
            if self._before_listing and root is not None:
                # What is moved counts as found by the last listing, so that the next one looks at it.
                if root.expanded_version == 0:
                    return ChangeCounts()  # no listing of it was ever completed
                root, changes = replace(root, wanted_version=root.expanded_version), changes.moves_alone()
            if root is None or root.expanded_version < root.wanted_version:
                return None
            counts = await _FolderTransaction(tx, base, self._root, root, self._cause).apply(
                changes, priority
            )
            await events.announce_ready(tx, [base.id])
            await faults.point("folder_changes.before_commit")
        return counts

    async def find_changes(self, entries: Sequence[DirectoryEntry]) -> FolderChanges:
        """The entries, with the files among them that were filed at other paths, or deleted here, and are at these now, by
        fingerprint. A path that still exists has a copy or a link of the file: that is no move."""
        paths = {_bare_fingerprint(entry.fingerprint): entry.path for entry in entries if entry.fingerprint}
        if not paths:
            return FolderChanges(entries)
        fingerprints = [*paths, *(f"{fingerprint}?" for fingerprint in paths)]
        async with self._db.connection() as tx:
            filed = await folder_tree.find_by_fingerprint(tx, self._root, fingerprints)
            excluded = await exclusions.find_excluded_files(tx, self._root.id, fingerprints)
        moves = {
            path: file
            for file in filed
            if (path := paths[_bare_fingerprint(file.fingerprint)]) != Path(file.path)
        }
        excluded_moves = {
            path: file
            for file in excluded
            if (path := paths[_bare_fingerprint(file.fingerprint)]) != Path(file.path)
        }
        old_paths = {Path(file.path) for file in (*moves.values(), *excluded_moves.values())}
        present = await threads.run_blocking(lambda: {path for path in old_paths if _exists(path)})
        return FolderChanges(
            entries,
            moves={path: file for path, file in moves.items() if Path(file.path) not in present},
            excluded_moves={
                path: file for path, file in excluded_moves.items() if Path(file.path) not in present
            },
        )


class _FolderTransaction:
    """One transaction's changes."""

    def __init__(self, tx: Tx, base: Base, root: Item, top: KnownFolder, cause: UUID) -> None:
        self._tx, self._base, self._root, self._cause = tx, base, root, cause
        # By path: the key of a folder that was added twice has a number.
        self._folders: dict[str, KnownFolder | None] = {root.source["path"]: top}
        self._new_folders: list[Item] = []

    async def apply(self, changes: FolderChanges, priority: Priority) -> ChangeCounts:
        """Write all of it, removals last."""
        await self._move_exclusions(changes.excluded_moves)
        entries = await self._without_excluded(changes.entries)
        folders = [str(entry.path) for entry in entries if entry.kind == "directory" and entry.error is None]
        await self._open_folders([*(str(entry.path.parent) for entry in entries), *folders], create=True)
        known = await self._find_known([str(entry.path) for entry in entries])
        moves, new, changed = list[FileMove](), list[DirectoryEntry](), list[tuple[ItemId, NewItem]]()
        for entry in entries:
            folder = self._folders.get(str(entry.path.parent))
            if folder is None:
                continue
            child = known.get((entry.kind, str(entry.path)))
            source = changes.moves.get(entry.path)
            if child is not None:
                if _has_changed(child, entry):
                    changed.append((child.id, self._new_item(entry)))
            elif source is not None:
                moves.append(
                    FileMove(
                        source.id,
                        folder.id,
                        entry.name,
                        str(entry.path),
                        source.fingerprint,
                        folder.wanted_version,
                    )
                )
            elif entry.kind == "file" or entry.error is not None:
                new.append(entry)
        counts = ChangeCounts(added=len(new) + len(self._new_folders), changed=len(changed))
        filed = await self._insert(new)
        requested = await catalog.request_changed_versions(self._tx, changed, self._cause)
        counts.moved = await self._move(moves)
        await record_filed_events(self._tx, [*self._new_folders, *filed])
        await enqueue_next_jobs(self._tx, self._base, [*filed, *requested], priority)
        await self._finish_folders()
        await catalog.derive_statuses_above(self._tx, [item.id for item in [*filed, *requested]])
        counts.removed = await self._remove(changes.gone, _other_types(entries, known))
        return counts

    # ── folders ──────────────────────────────────────────────────────────────────────────────────────────

    async def _open_folders(self, paths: Sequence[str], *, create: bool) -> None:
        """Find the folders of these paths, from the top downwards, and create those that are missing."""
        wanted: set[str] = set()
        for path in paths:
            while path not in self._folders and path not in wanted:
                wanted.add(path)
                path = str(Path(path).parent)
        for depth in sorted({path.count("/") for path in wanted}):
            level = [path for path in wanted if path.count("/") == depth]
            parents = {path: self._folders.get(str(Path(path).parent)) for path in level}
            places = [(parent.id, path) for path, parent in parents.items() if parent is not None]
            for folder in await folder_tree.find_folders(self._tx, self._base.id, places):
                is_listed = folder.expanded_version >= folder.wanted_version
                self._folders[folder.source_key] = folder if is_listed else None
            missing = [path for path, parent in parents.items() if parent and path not in self._folders]
            if create and missing:
                await self._create_folders(missing, parents)
            for path in level:
                self._folders.setdefault(path, None)

    async def _create_folders(self, paths: Sequence[str], parents: Mapping[str, KnownFolder | None]) -> None:
        entries = [DirectoryEntry("directory", Path(path), Path(path).name) for path in paths]
        folders = [parent for path in paths if (parent := parents[path]) is not None]
        items = await catalog.insert_children(
            self._tx,
            self._base.id,
            [folder.id for folder in folders],
            [folder.wanted_version for folder in folders],
            [self._new_item(entry) for entry in entries],
            cause=self._cause,
        )
        self._new_folders += items
        for path, item in zip(paths, items, strict=True):
            version = item.wanted_version
            self._folders[path] = KnownFolder(item.id, item.parent_id, path, version, version)

    async def _finish_folders(self) -> None:
        """New folders are listed completely: their statuses follow from their children."""
        versions = [(item.id, item.wanted_version) for item in self._new_folders]
        await catalog.mark_expanded(
            self._tx, [ExpandedContainer(item_id, version, {}) for item_id, version in reversed(versions)]
        )
        await events.record(
            self._tx, *(ContainerExpanded(self._base.id, item_id, version) for item_id, version in versions)
        )

    # ── entries ──────────────────────────────────────────────────────────────────────────────────────────

    async def _move_exclusions(self, moves: Mapping[Path, ExcludedFile]) -> None:
        """Leave out files where they are now, unless they replaced one that is filed."""
        paths = [str(path) for path in moves]
        await self._open_folders([str(path.parent) for path in moves], create=False)
        filed = {path for kind, path in await self._find_known(paths) if kind == "file"}
        # Folders that are missing may be created later.
        self._folders = {path: folder for path, folder in self._folders.items() if folder is not None}
        await exclusions.move_exclusions(
            self._tx, {path: file for path, file in moves.items() if str(path) not in filed}
        )

    async def _without_excluded(self, entries: Sequence[DirectoryEntry]) -> list[DirectoryEntry]:
        """Without what people deleted, and everything below a folder that they deleted."""
        folders = {
            path for entry in entries for path in _folders_above(entry.path, self._root.source["path"])
        }
        sources = [
            *(("directory", path) for path in folders),
            *((str(entry.kind), str(entry.path)) for entry in entries),
        ]
        places = await exclusions.find_excluded(self._tx, self._root.id, sources)
        excluded = {sources[place] for place in places}
        if not excluded:
            return list(entries)
        await exclusions.note_excluded_changes(
            self._tx,
            self._root.id,
            {
                str(entry.path): entry.fingerprint
                for entry in entries
                if entry.fingerprint is not None and (entry.kind, str(entry.path)) in excluded
            },
        )
        return [
            entry
            for entry in entries
            if (entry.kind, str(entry.path)) not in excluded
            and not any(
                ("directory", path) in excluded
                for path in _folders_above(entry.path, self._root.source["path"])
            )
        ]

    async def _find_known(self, paths: Sequence[str]) -> dict[tuple[str, str], ListedChild]:
        places = [
            (folder.id, path)
            for path in paths
            if (folder := self._folders.get(str(Path(path).parent))) is not None
        ]
        children = await folder_tree.find_listed_by_key(self._tx, self._base.id, places)
        return {(child.type, child.source_key): child for child in children}

    async def _insert(self, entries: Sequence[DirectoryEntry]) -> list[Item]:
        folders = [
            folder for entry in entries if (folder := self._folders.get(str(entry.path.parent))) is not None
        ]
        return await catalog.insert_children(
            self._tx,
            self._base.id,
            [folder.id for folder in folders],
            [folder.wanted_version for folder in folders],
            await fail_beyond_quota(self._tx, self._base.id, [self._new_item(entry) for entry in entries]),
            cause=self._cause,
        )

    async def _move(self, moves: Sequence[FileMove]) -> int:
        """Move items, and have those with another name indexed by it; how many."""
        moved = await folder_tree.move_items(self._tx, moves)
        moved_ids = [move.id for move in moved]
        await jobs.enqueue(
            self._tx,
            *(NewJob(IndexTitle(move.id), lane=self._base.lane) for move in moved if move.is_renamed),
        )
        await catalog.derive_statuses(self._tx, sorted({move.old_parent for move in moved}))
        await catalog.derive_statuses_above(self._tx, moved_ids)
        return len(moved)

    async def _remove(self, paths: Sequence[str], replaced: Sequence[ListedChild]) -> int:
        await self._open_folders([str(Path(path).parent) for path in paths], create=False)
        gone = [*replaced, *(await self._find_known(paths)).values()]
        if gone:
            await mark_for_deletion(self._tx, self._base, [child.id for child in gone])
        return len(gone)

    def _new_item(self, entry: DirectoryEntry) -> NewItem:
        source = {"path": str(entry.path)}
        if entry.kind == "directory":
            source["root"] = self._root.source["path"]
        if ADDED_LOCALLY in self._root.source:
            source[ADDED_LOCALLY] = self._root.source[ADDED_LOCALLY]
        return NewItem(
            entry.kind,
            entry.name,
            str(entry.path),
            source=source,
            size_bytes=entry.size,
            error=entry.error,
            fingerprint=entry.fingerprint,
        )


def _has_changed(child: ListedChild, entry: DirectoryEntry) -> bool:
    """Whether an entry differs from what is filed of it. Of a folder only its error counts: its contents are compared by
    themselves."""
    error_code = entry.error.code if entry.error is not None else None
    if entry.kind == "directory":
        return error_code != (None if child.error_code == "all_failed" else child.error_code)
    if error_code is not None:
        return child.status != "failed" or child.error_code != error_code
    if child.status == "failed" and child.error_code in SOURCE_ERRORS:
        return True
    return entry.fingerprint is None or child.fingerprint != entry.fingerprint


def _other_types(
    entries: Sequence[DirectoryEntry], known: Mapping[tuple[str, str], ListedChild]
) -> list[ListedChild]:
    """What is filed as a file where there is a folder now, or the other way round. Of an entry that could not be looked at, the
    type is not known."""
    children = [
        known.get(("file" if entry.kind == "directory" else "directory", str(entry.path)))
        for entry in entries
        if entry.error is None and (entry.kind == "directory" or entry.fingerprint is not None)
    ]
    return [child for child in children if child is not None]


def _folders_above(path: Path, top: str) -> list[str]:
    """The folders between a path and the top, both left out."""
    above: list[str] = []
    folder = path.parent
    while len(str(folder)) > len(top):
        above.append(str(folder))
        folder = folder.parent
    return above


def _bare_fingerprint(fingerprint: str) -> str:
    """A fingerprint without the mark of a file that was changed a moment ago."""
    return fingerprint.removesuffix("?")


def _exists(path: Path) -> bool:
    return path.is_symlink() or path.exists()
