"""Reading what git's own server sends, without a git binary."""

import os
import random
import shutil
import subprocess
from collections.abc import AsyncGenerator, Generator
from datetime import timedelta
from pathlib import Path

import pytest

from gristmill.connectors import git_protocol as git
from gristmill.connectors.transport import Transport
from gristmill.errors import SourceGone, Unreadable
from tests.sources.site import Site, SiteRequest, SiteResponse, serve

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def run(folder: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    for role in ("AUTHOR", "COMMITTER"):
        env |= {f"GIT_{role}_NAME": "n", f"GIT_{role}_EMAIL": "e@example.org"}
    return subprocess.run(
        ["git", *arguments],
        cwd=folder,
        env=env,
        input=stdin,
        check=True,
        capture_output=True,
    ).stdout


@pytest.fixture
def site(tmp_path: Path) -> Generator[Site]:
    """A server for the repositories below a folder, by `git upload-pack`."""

    def answer(request: SiteRequest) -> SiteResponse:
        path, _, _ = request.path.partition("?")
        name = path.split("/")[1]
        if not (tmp_path / name).is_dir():
            return SiteResponse(404)
        if path.endswith("/info/refs"):
            refs = run(tmp_path, "upload-pack", "--stateless-rpc", "--advertise-refs", name)
            return SiteResponse(200, b"001e# service=git-upload-pack\n0000" + refs)
        return SiteResponse(200, run(tmp_path, "upload-pack", "--stateless-rpc", name, stdin=request.body))

    with serve() as server:
        server.fallback = answer
        yield server


@pytest.fixture
async def http(site: Site) -> AsyncGenerator[Transport]:
    transport = Transport(site.url, headers={}, allow_private=True, max_wait=timedelta(0))
    yield transport
    await transport.close()


def commit(folder: Path, files: dict[str, bytes]) -> None:
    if not folder.exists():
        folder.mkdir()
        run(folder, "init", "-q")
        run(folder, "config", "uploadpack.allowFilter", "true")
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    run(folder, "add", "-A")
    run(folder, "commit", "-qm", "changed")


async def test_the_newest_files_are_read_whole_also_when_they_are_sent_as_differences(
    tmp_path: Path, http: Transport
) -> None:
    dice = random.Random(3)
    lines = [f"line {dice.random()}\n".encode() for _ in range(3_000)]
    alike = {f"pages/{n}.md": b"".join([*lines[:n], b"%d\n" % n, *lines[n:]]) for n in range(0, 3_000, 300)}
    files = {
        "Home.md": "Müller 磨坊\n".encode(),
        "empty.md": b"",
        "deep/er/x.bin": dice.randbytes(200_000),
        **alike,
    }
    commit(tmp_path / "wiki", files)
    run(tmp_path / "wiki", "gc", "-q", "--aggressive")
    head = await git.fetch_head(http, "/wiki")
    files_read = await git.fetch_files(http, head, 1 << 20)
    assert {path: file.data for path, file in files_read.items()} == files
    commit(tmp_path / "wiki", {"Home.md": b"changed"})
    after = await git.fetch_head(http, "/wiki")
    assert after.commit != head.commit
    again = await git.fetch_files(http, after, 1 << 20)
    assert {path for path in again if again[path] != files_read[path]} == {"Home.md"}


async def test_files_come_from_the_address_that_the_refs_were_redirected_to(
    tmp_path: Path, http: Transport, site: Site
) -> None:
    """GitLab redirects `…/docs/info/refs` to `…/docs.git/info/refs`, as others do after a rename, and nothing but the refs: git goes
    on there."""
    commit(tmp_path / "wiki", {"a.md": b"words"})
    answer = site.fallback
    assert answer is not None

    def redirect(request: SiteRequest) -> SiteResponse:
        if request.path.startswith("/docs/info/refs"):
            return SiteResponse(301, b"", {"Location": request.path.replace("/docs/", "/wiki/")})
        return answer(request)

    site.fallback = redirect
    assert set(await git.fetch_files(http, await git.fetch_head(http, "/docs"), 1_000)) == {"a.md"}


async def test_files_over_the_size_limit_are_left_out(tmp_path: Path, http: Transport) -> None:
    commit(tmp_path / "wiki", {"a.md": b"small", "b.md": b"x" * 5_000})
    assert set(await git.fetch_files(http, await git.fetch_head(http, "/wiki"), 1_000)) == {"a.md"}


async def test_links_and_empty_or_missing_repositories(tmp_path: Path, http: Transport) -> None:
    commit(tmp_path / "wiki", {"a.md": b"words"})
    (tmp_path / "wiki" / "link.md").symlink_to("/etc/passwd")
    commit(tmp_path / "wiki", {})
    assert set(await git.fetch_files(http, await git.fetch_head(http, "/wiki"), 1_000)) == {"a.md"}
    (tmp_path / "bare").mkdir()
    run(tmp_path / "bare", "init", "-q")
    for missing in ("/bare", "/nothing"):
        with pytest.raises(SourceGone):
            await git.fetch_head(http, missing)


async def test_why_a_repository_has_nothing_to_read(tmp_path: Path, http: Transport) -> None:
    """A main branch without commits, where another one has some; objects that are named by SHA-256."""
    commit(tmp_path / "wiki", {"a.md": b"words"})
    run(tmp_path / "wiki", "checkout", "-q", "--orphan", "fresh")
    with pytest.raises(SourceGone, match="Set branch to another one"):
        await git.fetch_head(http, "/wiki")
    (tmp_path / "new").mkdir()
    run(tmp_path / "new", "init", "-q", "--object-format=sha256")
    commit(tmp_path / "new", {"a.md": b"words"})
    with pytest.raises(Unreadable, match="SHA-256"):
        await git.fetch_head(http, "/new")


@pytest.mark.parametrize("cut", [0, 4, 11, 40, 200, -21, -40])
async def test_a_truncated_pack_is_unreadable(tmp_path: Path, http: Transport, site: Site, cut: int) -> None:
    commit(tmp_path / "wiki", {f"{n}.md": os.urandom(300) for n in range(5)})
    head = await git.fetch_head(http, "/wiki")
    full_answer = site.fallback
    assert full_answer is not None
    site.fallback = lambda request: SiteResponse(200, full_answer(request).body[:cut])
    with pytest.raises(Unreadable):
        await git.fetch_files(http, head, 1 << 20)


async def test_a_response_that_is_not_from_a_git_server_is_unreadable(http: Transport, site: Site) -> None:
    site.fallback = lambda _: SiteResponse(200, b"<html>Sign in</html>")
    with pytest.raises(Unreadable, match="not from a git server"):
        await git.fetch_head(http, "/wiki")
