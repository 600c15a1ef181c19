"""Connectors against servers that others wrote: git's own HTTP backend, and wsgidav."""

import shutil
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from gristmill.connectors import git_repository, webdav
from gristmill.connectors.port import ConnectorKind
from gristmill.connectors.testing import open_kind, read_all
from gristmill.connectors.transport import CredentialsRejected
from gristmill.errors import SourceGone, Unreadable
from tests.connectors.servers.dav import serve_wsgidav
from tests.connectors.servers.git_http import git, serve_repositories


async def read_texts(
    kind: ConnectorKind, config: dict[str, Any], credentials: dict[str, Any]
) -> dict[str, tuple[str, str | None]]:
    """The text and the mark of every document, by its id."""
    documents = await read_all(open_kind(kind, config, credentials))
    return {key: (read.text, read.document.mark) for key, read in documents.items()}


# ── git ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
async def test_a_branch_is_read_from_gits_own_http_backend(tmp_path: Path) -> None:
    """Folders, deltas, a branch, a rename; files that are too large, of other formats or held by Git LFS are left out."""
    work = tmp_path / "work"
    (work / "docs").mkdir(parents=True)
    git(work, "init", "-q", "-b", "trunk")
    (work / "docs" / "plan.md").write_text("rye and spelt\n" * 500)
    (work / "readme.TXT").write_text("wheat")
    (work / "code.c").write_text("int main;")
    (work / "big.pdf").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
    git(work, "add", ".")
    git(work, "commit", "-q", "-m", "first")
    git(work, "clone", "-q", "--bare", ".", str(tmp_path / "served.git"))
    with serve_repositories(tmp_path) as address:
        config, secret = {"url": f"{address}/served.git"}, {"password": "s3cret"}
        first = await read_texts(git_repository.KIND, config, secret)
        assert {key: len(text) for key, (text, _) in first.items()} == {
            "file:docs/plan.md": 7000,
            "file:readme.TXT": 5,
        }
        git(work, "mv", "docs/plan.md", "docs/old plan ü.md")
        git(work, "commit", "-q", "-m", "second")
        git(work, "push", "-q", str(tmp_path / "served.git"), "trunk:trunk", "trunk:next")
        second = await read_texts(git_repository.KIND, {**config, "branch": "next", "folder": "docs"}, secret)
        assert list(second) == ["file:docs/old plan ü.md"]
        assert second["file:docs/old plan ü.md"] == first["file:docs/plan.md"]
        for wrong, error in (
            ({"branch": "gone"}, SourceGone),
            ({"url": f"{address}/other.git"}, SourceGone),
        ):
            with pytest.raises(error):
                await open_kind(git_repository.KIND, {**config, **wrong}, secret).check()
        with pytest.raises(CredentialsRejected):
            await open_kind(git_repository.KIND, config, {"password": "wrong"}).check()


# ── WebDAV ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def dav(tmp_path: Path) -> Generator[tuple[Path, str]]:
    """A folder, and the address at which wsgidav serves it."""
    folder = tmp_path / "files"
    folder.mkdir()
    with serve_wsgidav(folder) as address:
        yield folder, address


async def test_a_folder_is_read_from_wsgidav(dav: tuple[Path, str]) -> None:
    folder, address = dav
    (folder / "a b" / "deep ü").mkdir(parents=True)
    (folder / "a b" / "deep ü" / "plan & more.md").write_text("rye")
    (folder / "top.txt").write_text("wheat")
    (folder / "top.bin").write_text("no document")
    config, secret = {"baseUrl": address}, {"username": "ann", "password": "s3cret"}
    first = await read_texts(webdav.KIND, config, secret)
    assert {key: text for key, (text, _) in first.items()} == {
        "file:a b/deep ü/plan & more.md": "rye",
        "file:top.txt": "wheat",
    }
    (folder / "top.txt").write_text("wheat and more")
    second = await read_texts(webdav.KIND, config, secret)
    assert second["file:top.txt"][1] != first["file:top.txt"][1]
    assert second["file:a b/deep ü/plan & more.md"] == first["file:a b/deep ü/plan & more.md"]
    assert list(await read_texts(webdav.KIND, {**config, "folder": "/a b/"}, secret)) == [
        "file:a b/deep ü/plan & more.md"
    ]
    with pytest.raises(CredentialsRejected):
        await open_kind(webdav.KIND, config, {"username": "ann", "password": "wrong"}).check()
    with pytest.raises((SourceGone, Unreadable)):
        await open_kind(webdav.KIND, {**config, "folder": "missing"}, secret).check()
