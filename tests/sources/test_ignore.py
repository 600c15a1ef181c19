"""Ignore rules: hidden entries, built-in patterns, and the patterns of callers and folders."""

import asyncio
import os
import tempfile
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.errors import Invalid, Unreadable
from gristmill.sources import IGNORE_FILE, IgnoreRules
from gristmill.sources.ignore import BUILT_IN_FILES, BUILT_IN_FOLDERS
from tests.sources.folder_listing import entry_names, list_entries, list_tree, write_files


async def test_hidden_entries_are_left_out_unless_asked_for(tmp_path: Path) -> None:
    write_files(tmp_path, ".env", ".config/settings", "a")
    assert await entry_names(tmp_path) == ["a"]
    assert await entry_names(tmp_path, IgnoreRules(hidden=True)) == [".config", ".env", "a"]


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
    write_files(tmp_path, *junk, "letter.docx", *(f"sub/{path}" for path in junk), "sub/letter.docx")
    assert await list_tree(tmp_path, IgnoreRules(hidden=True)) == {"letter.docx", "sub/letter.docx"}


async def test_patterns_for_files_do_not_match_folders(
    tmp_path: Path,
) -> None:
    write_files(tmp_path, "second.part/a", "~/b", "x.tmp/c.tmp")
    assert await list_tree(tmp_path, IgnoreRules()) == {"second.part/a", "~/b"}


async def test_the_callers_patterns_are_relative_to_the_root(tmp_path: Path) -> None:
    write_files(
        tmp_path, "a.log", "b.md", "drafts/c.md", "sub/drafts/d.md", "sub/e.log", "build/f", "sub/build/g"
    )
    rules = IgnoreRules(("*.log", "/drafts/", "sub/build"))
    assert await list_tree(tmp_path, rules) == {"b.md", "sub/drafts/d.md", "build/f"}


async def test_the_patterns_of_a_folder_apply_below_it(tmp_path: Path) -> None:
    write_files(tmp_path, "top.md", "one/a.md", "one/b.txt", "one/two/c.md", "two/d.md")
    (tmp_path / "one" / IGNORE_FILE).write_text("# of this folder\n*.md\n!c.md\n/two/nothing\n")
    assert await list_tree(tmp_path, IgnoreRules()) == {"top.md", "one/b.txt", "one/two/c.md", "two/d.md"}
    assert await list_tree(tmp_path, IgnoreRules(hidden=True)) == {
        "top.md",
        "one/b.txt",
        "one/two/c.md",
        "two/d.md",
    }


async def test_the_nearer_pattern_wins_over_the_farther_and_the_callers_over_all(tmp_path: Path) -> None:
    write_files(tmp_path, "a.tmp", "b.tmp", "sub/a.tmp", "sub/b.tmp")
    (tmp_path / IGNORE_FILE).write_text("!*.tmp\nb.*\n")
    (tmp_path / "sub" / IGNORE_FILE).write_text("!b.tmp\n")
    assert await list_tree(tmp_path, IgnoreRules()) == {"a.tmp", "sub/a.tmp", "sub/b.tmp"}
    assert await list_tree(tmp_path, IgnoreRules(("sub/b.tmp",))) == {"a.tmp", "sub/a.tmp"}


async def test_entries_of_an_ignored_folder_cant_be_included_again(tmp_path: Path) -> None:
    write_files(tmp_path, "out/a", "in/a")
    assert await list_tree(tmp_path, IgnoreRules(("out/", "!out/a"))) == {"in/a"}


@pytest.mark.parametrize(
    "rules",
    [b"fine\n!\n", b"[z-a]", b"*a*a*a*b", b"**/a/**/b/**", b"caf\xe9", b"x\n" * 600_000, None],
    ids=["no pattern", "no range", "many stars", "many double stars", "not UTF-8", "too long", "a folder"],
)
async def test_an_invalid_ignore_file_fails_the_folder(rules: bytes | None, tmp_path: Path) -> None:
    write_files(tmp_path, "secret", "sub/secret")
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
            folders[:] = [name for name in folders if _is_included(name, hidden, BUILT_IN_FOLDERS)]
            included = (Path(where) / name for name in files if _is_included(name, hidden, BUILT_IN_FILES))
            expected |= {path.relative_to(root).as_posix() for path in included}
        assert asyncio.run(list_tree(root, IgnoreRules(hidden=hidden))) == expected


def _is_included(name: str, hidden: bool, patterns: Sequence[str]) -> bool:
    if name.startswith(".") and not hidden:
        return False
    return not any(fnmatchcase(name, pattern) for pattern in patterns)
