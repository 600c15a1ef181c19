"""Lists folders as the expansion of a directory does, for several test files."""

import os
from pathlib import Path

from gristmill.sources import DirectoryEntry, IgnoreRules, list_folder


async def list_entries(
    path: Path, rules: IgnoreRules | None = None, root: Path | None = None
) -> list[DirectoryEntry]:
    """The entries of one folder."""
    batches = list_folder(path, rules or IgnoreRules(), root or path)
    return [entry async for batch in batches for entry in batch]


async def entry_names(path: Path, rules: IgnoreRules | None = None, root: Path | None = None) -> list[str]:
    """The names of the entries of one folder, in order."""
    return sorted(entry.name for entry in await list_entries(path, rules, root))


async def list_tree(root: Path, rules: IgnoreRules) -> set[str]:
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


def write_files(root: Path, *paths: str) -> None:
    """Write files whose contents are their own paths."""
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(os.fsencode(path))
