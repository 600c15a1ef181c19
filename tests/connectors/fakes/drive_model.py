"""What fake drives contain: files and folders with permissions that are inherited, and a log of what changed.

The log is as terse as a tool may be: it names an item that changed itself, and nothing that lies below it. A folder that is renamed,
moved, shared, trashed or deleted is one entry.
"""

import hashlib
from dataclasses import dataclass, field
from typing import Any

from tests.connectors.fakes.tool import ExpectedDocument, FakeTool, words_in

FOLDER = "application/vnd.google-apps.folder"
READER = "ann@example.org"


@dataclass
class DriveFile:
    """A file or folder. `readers` are those of its own; without them it has those of its folder, or of its drive."""

    id: str
    name: str
    drive: str
    text: str = ""
    parent: str | None = None
    media_type: str = "text/markdown"
    modified: str = ""
    trashed: bool = False
    readers: list[str] | None = None
    version: int = 1

    @property
    def hash(self) -> str:
        """The hash of its bytes."""
        return hashlib.md5(self.text.encode(), usedforsecurity=False).hexdigest()

    @property
    def state(self) -> tuple[Any, ...]:
        """What counts as a change of the item itself."""
        return self.name, self.drive, self.text, self.parent, self.modified, self.trashed, self.version

    @property
    def own_readers(self) -> tuple[str, ...]:
        """Its own readers, to be compared."""
        return ("inherited",) if self.readers is None else tuple(self.readers)


@dataclass
class Drive:
    """A drive and those who may read it."""

    id: str
    readers: list[str] = field(default_factory=lambda: [READER])


class ChangeLog:
    """What changed, by a running number; an item is named where it changed last. It is found out by comparing: tests may change
    files as they like."""

    def __init__(self) -> None:
        self.number = 1000
        self.oldest = 0  # tokens before it have expired
        self.changes: dict[str, tuple[int, str]] = {}  # number and drive, by id
        self.sharing: dict[str, int] = {}
        self._states: dict[str, tuple[str, tuple[Any, ...], tuple[str, ...]]] = {}
        self._hidden: frozenset[str] = frozenset()

    def compare(self, files: dict[str, DriveFile], hidden: frozenset[str] = frozenset()) -> int:
        """Note what changed since the last time; the number of the last change. What is no longer `hidden` has changed, too."""
        now = {file.id: (file.drive, file.state, file.own_readers) for file in files.values()}
        for item_id in sorted(now.keys() | self._states.keys()):
            old, new = self._states.get(item_id), now.get(item_id)
            if old == new and item_id not in self._hidden - hidden:
                continue
            self.number += 1
            drive = (new or old or ("",))[0]
            self.changes[item_id] = (self.number, drive)
            if old is not None and new is not None and old[2] != new[2]:
                self.sharing[item_id] = self.number
        self._states, self._hidden = now, hidden
        return self.number

    def since(self, number: int, drive: str) -> list[tuple[int, str]]:
        """Numbers and ids of what changed later in a drive."""
        return sorted(
            (changed, item_id)
            for item_id, (changed, place) in self.changes.items()
            if changed > number and place == drive
        )

    def expire_tokens(self) -> None:
        """Accept no token that was issued so far."""
        self.number += 1
        self.oldest = self.number


class FakeDrives(FakeTool):
    """Two drives with folders and files; a few files are of formats that are not followed."""

    drive_ids = ("my", "D1")

    def __init__(self) -> None:
        super().__init__()
        self.drives = {drive: Drive(drive) for drive in self.drive_ids}
        self.files: dict[str, DriveFile] = {}
        self.log = ChangeLog()
        self.count = 0
        for drive in self.drive_ids:
            for name, parent in (("guides", None), ("deep er", f"guides-{drive}")):
                folder = DriveFile(
                    f"{name.replace(' ', '')}-{drive}", name, drive, parent=parent, media_type=FOLDER
                )
                self.files[folder.id] = folder
        self.files["picture"] = DriveFile("picture", "picture.png", self.drive_ids[0], "pixels")
        for _ in range(12):
            self.add()

    def snapshot(self) -> dict[str, Any]:
        """What the tool contains. The log goes on: what is restored has changed."""
        return {name: value for name, value in super().snapshot().items() if name != "log"}

    def stamp(self) -> str:
        """The time, as a file's last change has it; never the same twice."""
        return f"{self.now:%Y-%m-%dT%H:%M:%S}.{self.new_id() % 1_000_000:06d}Z"

    def ancestors(self, file: DriveFile) -> list[DriveFile | None]:
        """The folders that a file is in, the innermost first; None where one was deleted."""
        folders: list[DriveFile | None] = []
        current: DriveFile | None = file
        while current is not None and current.parent is not None:
            current = self.files.get(current.parent)
            folders.append(current)
        return folders

    def is_there(self, file: DriveFile) -> bool:
        """Whether neither the file nor a folder that it is in was deleted or put into the trash."""
        return not file.trashed and all(
            folder is not None and not folder.trashed for folder in self.ancestors(file)
        )

    def followed(self) -> list[DriveFile]:
        """The files that are followed."""
        return [
            file
            for file in self.files.values()
            if file.media_type != FOLDER and not file.name.endswith(".png") and self.is_there(file)
        ]

    def readers_of(self, file: DriveFile) -> list[str]:
        """Who may read a file: those of its own, of its folders, or of its drive."""
        for place in (file, *self.ancestors(file)):
            if place is not None and place.readers is not None:
                return place.readers
        return self.drives[file.drive].readers

    def path_of(self, file: DriveFile) -> str:
        """The names of its folders and its own."""
        names = [folder.name for folder in self.ancestors(file) if folder is not None]
        return "/".join([*reversed(names), file.name])

    def expected_documents(self) -> dict[str, ExpectedDocument]:
        return {
            f"file:{file.drive}:{file.id}": ExpectedDocument(
                words_in(file.text),
                frozenset(
                    "org:*" if reader == "anyone" else f"user_email:{reader}"
                    for reader in self.readers_of(file)
                ),
            )
            for file in self.followed()
        }

    def add(self) -> None:
        self.count += 1
        drive = self.drive_ids[self.count % 2]
        parent = (None, f"guides-{drive}", f"deeper-{drive}")[self.count % 3]
        folder = self.files.get(parent or "")
        if folder is None or not self.is_there(folder):
            parent = None
        file = DriveFile(
            f"f{self.new_id()}", f"file {self.count}.md", drive, f"text {self.new_word()}", parent
        )
        file.modified = self.stamp()
        if self.count % 4 == 0:
            file.readers = [READER, "bob@example.org"]
        self.files[file.id] = file

    def edit(self, pick: int) -> None:
        folders = [file for file in self.files.values() if file.media_type == FOLDER]
        if pick % 7 == 0 and folders:
            folder = folders[pick % len(folders)]
            folder.name = f"folder {self.new_id()}"
            if folder.id.startswith("deeper") and pick % 2:
                folder.parent = None if folder.parent else f"guides-{folder.drive}"
            return
        file = self.followed()[pick % len(self.followed())]
        if pick % 5 == 0:
            file.parent = None
        else:
            file.text = f"text {self.new_word()} {self.new_word()}"
        file.modified, file.version = self.stamp(), file.version + 1

    def delete(self, pick: int) -> None:
        if len(self.followed()) <= 8:
            return
        folder = self.files.get(f"deeper-{self.drive_ids[pick % 2]}")
        is_folder = pick % 3 == 0 and folder is not None and self.is_there(folder)
        file = folder if is_folder and folder else self.followed()[pick % len(self.followed())]
        if pick % 2:
            file.trashed = True
        else:
            del self.files[file.id]

    def change_permission(self, pick: int) -> None:
        folder = self.files.get(f"guides-{self.drive_ids[pick % 2]}")
        if pick % 3 == 0 and folder is not None:
            folder.readers = [READER, "fay@example.org"] if folder.readers is None else None
        elif pick % 2:
            readers = self.drives[self.drive_ids[1]].readers
            readers[:] = [READER] if len(readers) > 1 else [READER, "eve@example.org"]
        else:
            file = self.followed()[pick % len(self.followed())]
            file.readers = ["anyone"] if file.readers is None else None
