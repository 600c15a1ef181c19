"""Places with files: git repositories, WebDAV folders."""

import shutil
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from bench.connectors_real.packages import require_packages
from bench.connectors_real.tool import FileTool, Place, ServerAddress
from tests.connectors.servers import ServerUnavailable, dav, git_http, go_programs
from tests.connectors.servers.git_http import git

_PREFIX = "docs"


class GitTool(FileTool):
    """A repository behind git's own HTTP backend."""

    name = kind = "git"
    interrupt_after = 1  # one request reads all that changed
    _work: Path

    def start(self, stack: ExitStack, place: Place) -> ServerAddress:
        if shutil.which("git") is None:
            raise ServerUnavailable("git is not installed")
        folder = place.subfolder("git")
        git(folder, "init", "-q", "--bare", "-b", "main", "mill.git")
        url = stack.enter_context(git_http.serve_repositories(folder))
        self.server = f"git http-backend {git(folder, 'version').split()[2]}"
        self.follow(place, str(folder / "mill.git"))
        return ServerAddress.of(url)

    def follow(self, place: Place, remote: str) -> None:
        """Make a working copy whose changes are pushed to `remote`."""
        self._work = place.subfolder(f"{self.name}-work")
        git(self._work, "init", "-q", "-b", "main")
        git(self._work, "remote", "add", "origin", remote)
        self.fill()

    def config(self, url: str) -> dict[str, Any]:
        return {"url": f"{url}/mill.git", "branch": "main"}

    def credentials(self) -> dict[str, Any]:
        return {"password": git_http.PASSWORD}

    def write(self, path: str, text: str) -> None:
        file = self._work / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def remove(self, path: str) -> None:
        (self._work / path).unlink()

    def move(self, old: str, new: str) -> None:
        (self._work / new).parent.mkdir(parents=True, exist_ok=True)
        git(self._work, "mv", old, new)

    def end_change(self) -> None:
        super().end_change()
        git(self._work, "add", "-A")
        if git(self._work, "status", "--porcelain"):
            git(self._work, "commit", "-q", "-m", "change")
            git(self._work, "push", "-q", "origin", "main")


class GiteaTool(GitTool):
    """A private repository of Gitea."""

    name = "gitea"

    def start(self, stack: ExitStack, place: Place) -> ServerAddress:
        url, build = stack.enter_context(go_programs.run_gitea(place.subfolder("gitea"), place.cache))
        self.server = f"Gitea {build.removeprefix('v')}"
        httpx.post(
            f"{url}/api/v1/user/repos",
            json={"name": "mill", "private": True, "default_branch": "main"},
            auth=(go_programs.USER, go_programs.PASSWORD),
            timeout=60,
        ).raise_for_status()
        login = f"{go_programs.USER}:{go_programs.PASSWORD}@"
        self.follow(place, f"{url.replace('://', f'://{login}')}/{go_programs.USER}/mill.git")
        return ServerAddress.of(url)

    def config(self, url: str) -> dict[str, Any]:
        return {"url": f"{url}/{go_programs.USER}/mill.git"}

    def credentials(self) -> dict[str, Any]:
        return {"username": go_programs.USER, "password": go_programs.PASSWORD}


class DavTool(FileTool):
    """A folder on a WebDAV server; what is hidden is moved out of it, and keeps its date."""

    kind = "webdav"
    _client: httpx.Client

    def open_client(self, stack: ExitStack, url: str) -> ServerAddress:
        """Connect to the server, and write the first files."""
        self._client = stack.enter_context(
            httpx.Client(base_url=url, auth=(dav.USER, dav.PASSWORD), timeout=60)
        )
        for folder in (
            "hidden",
            _PREFIX,
            f"{_PREFIX}/guides",
            f"{_PREFIX}/guides/dé ep",
            f"{_PREFIX}/moved & kept",
        ):
            self._send("MKCOL", folder)
        self.fill()
        return ServerAddress.of(url)

    def config(self, url: str) -> dict[str, Any]:
        return {"baseUrl": f"{url}/dav/{_PREFIX}"}

    def credentials(self) -> dict[str, Any]:
        return {"username": dav.USER, "password": dav.PASSWORD}

    def write(self, path: str, text: str) -> None:
        self._send("PUT", f"{_PREFIX}/{path}", content=text.encode())

    def remove(self, path: str) -> None:
        self._send("DELETE", f"{_PREFIX}/{path}")

    def move(self, old: str, new: str) -> None:
        self._move(f"{_PREFIX}/{old}", f"{_PREFIX}/{new}")

    def take_away(self, path: str) -> None:
        self._move(f"{_PREFIX}/{path}", f"hidden/{path.rpartition('/')[2]}")

    def put_back(self, path: str, text: str) -> None:
        del text
        self._move(f"hidden/{path.rpartition('/')[2]}", f"{_PREFIX}/{path}")

    def _move(self, old: str, new: str) -> None:
        self._send("MOVE", old, headers={"Destination": f"{self._client.base_url}{quote(new)}"})

    def _send(self, method: str, path: str, **options: Any) -> None:
        self._client.request(method, quote(path), **options).raise_for_status()


class WsgiDavTool(DavTool):
    """wsgidav. Its files are changed in its folder: behind the web server of Python's library it takes no uploads."""

    name = "webdav"
    _folder: Path

    def start(self, stack: ExitStack, place: Place) -> ServerAddress:
        self.server = f"wsgidav {version('wsgidav')}"
        self._folder = place.subfolder("wsgidav")
        return self.open_client(stack, stack.enter_context(dav.serve_wsgidav(self._folder)))

    def write(self, path: str, text: str) -> None:
        (self._folder / _PREFIX / path).write_text(text)


class ApacheTool(DavTool):
    """Apache's mod_dav."""

    name = "webdav-apache"

    def start(self, stack: ExitStack, place: Place) -> ServerAddress:
        require_packages(place, "apache2")
        folder = place.subfolder("apache")
        files = folder / "files"
        files.mkdir()
        url, release = stack.enter_context(dav.run_apache(files, folder))
        self.server = f"Apache {release}"
        return self.open_client(stack, url)
