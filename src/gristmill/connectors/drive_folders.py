"""The folders of a drive, as far as a connector has met them; others are requested when a file needs them.

A file remembers the folders that it was read in, with the mark of each: its name and the folder that it is in. When a tool reports a
folder with another mark, the paths of all files below it have changed, and they are read again (`Batch.folders`). What is kept here may
be older than the tool: then files remember the older mark, and are read again with the tool's next report.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

_MAX_DEPTH = 100


@dataclass(frozen=True)
class Folder:
    """A folder; without a parent it is at the top."""

    name: str
    parent: str | None

    @property
    def mark(self) -> str:
        """What changes when it is renamed or moved."""
        return f"{self.parent or ''}/{self.name}"


@dataclass(frozen=True)
class FolderPath:
    """Where a file is: the names of its folders from the top down, and their marks by id. One that can't be seen, or is the root of
    the drive, has an empty mark and no name."""

    names: tuple[str, ...]
    marks: Mapping[str, str]

    def join(self, name: str) -> str:
        """The path of a file of this name."""
        return "/".join([*self.names, name])


class DriveFolders:
    """Folders by id. `find` requests one: None if it is the root of the drive, or can't be seen."""

    def __init__(self, find: Callable[[str], Awaitable[Folder | None]]) -> None:
        self._find, self._folders = find, dict[str, Folder | None]()

    def remember(self, folder_id: str, folder: Folder | None) -> None:
        """A folder as the tool reports it now."""
        self._folders[folder_id] = folder

    async def path_of(self, folder_id: str | None) -> FolderPath:
        """The path of a folder."""
        names: list[str] = []
        marks: dict[str, str] = {}
        while folder_id is not None and folder_id not in marks and len(marks) < _MAX_DEPTH:
            if folder_id not in self._folders:
                self._folders[folder_id] = await self._find(folder_id)
            folder = self._folders[folder_id]
            marks[folder_id] = "" if folder is None else folder.mark
            names += [] if folder is None else [folder.name]
            folder_id = None if folder is None else folder.parent
        return FolderPath(tuple(reversed(names)), marks)
