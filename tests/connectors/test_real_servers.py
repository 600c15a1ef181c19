"""Connectors against servers that others wrote: git's own HTTP backend, and wsgidav."""

import os
import shutil
import subprocess
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from wsgidav.wsgidav_app import WsgiDAVApp

from gristmill.connectors import git_repository, webdav
from gristmill.connectors.port import ConnectorKind
from gristmill.connectors.testing import open_kind, read_all
from gristmill.connectors.transport import CredentialsRejected
from gristmill.errors import SourceGone, Unreadable
from tests.connectors.fakes.wsgi import serve_wsgi


async def read_texts(
    kind: ConnectorKind, config: dict[str, Any], credentials: dict[str, Any]
) -> dict[str, tuple[str, str | None]]:
    """The text and the mark of every document, by its id."""
    documents = await read_all(open_kind(kind, config, credentials))
    return {key: (read.text, read.document.mark) for key, read in documents.items()}


# ── git ──────────────────────────────────────────────────────────────────────────────────────────────────


def git(folder: Path, *arguments: str) -> str:
    """Run git, without the settings of this machine."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        **{
            f"GIT_{who}_{what}": "ann@example.org"
            for who in ("AUTHOR", "COMMITTER")
            for what in ("NAME", "EMAIL")
        },
    }
    result = subprocess.run(
        ["git", *arguments],
        cwd=folder,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    return result.stdout


def http_backend(root: Path) -> Callable[..., Any]:
    """`git http-backend` as a WSGI application, behind the password `s3cret`."""

    def serve(environ: dict[str, Any], start: Callable[..., Any]) -> list[bytes]:
        if environ.get("HTTP_AUTHORIZATION") != webdav.basic_authorization("git", "s3cret"):
            start("401 Unauthorized", [("WWW-Authenticate", "Basic")])
            return [b""]
        names = ("REQUEST_METHOD", "QUERY_STRING", "CONTENT_TYPE", "PATH_INFO")
        cgi = {name: environ.get(name, "") for name in names}
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        output = subprocess.run(
            ["git", "http-backend"],
            env={
                "PATH": os.environ["PATH"],
                "GIT_PROJECT_ROOT": str(root),
                "GIT_HTTP_EXPORT_ALL": "1",
                **cgi,
            },
            input=body,
            check=True,
            capture_output=True,
        ).stdout
        head, _, rest = output.partition(b"\r\n\r\n")
        headers = [tuple(line.split(": ", 1)) for line in head.decode().split("\r\n")]
        status = next((value for name, value in headers if name == "Status"), "200 OK")
        start(status, [(name, value) for name, value in headers if name != "Status"])
        return [rest]

    return serve


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
    with serve_wsgi(http_backend(tmp_path)) as address:
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
    application = WsgiDAVApp(
        {
            "provider_mapping": {"/dav": str(folder)},
            "simple_dc": {"user_mapping": {"*": {"ann": {"password": "s3cret"}}}},
            "http_authenticator": {"accept_basic": True, "accept_digest": False, "default_to_digest": False},
            "logging": {"enable": False},
            "verbose": 0,
        }
    )
    with serve_wsgi(application) as address:
        yield folder, f"{address}/dav"


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
