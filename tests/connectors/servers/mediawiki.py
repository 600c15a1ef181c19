"""Debian's MediaWiki with a SQLite database, served by PHP's own web server."""

import os
import shutil
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.connectors.servers import ServerUnavailable, run_program
from tests.free_port import free_port

USER, PASSWORD = "Miller", "s3cret-of-the-wiki"
_SOURCE = Path("/usr/share/mediawiki")
_WORKERS = "4"  # processes of PHP's web server


@dataclass(frozen=True)
class MediaWiki:
    """A running wiki, and a session of its administrator."""

    port: int
    version: str
    session: httpx.Client

    @property
    def api_url(self) -> str:
        """The address of its API."""
        return f"http://127.0.0.1:{self.port}/api.php"

    def act(self, action: str, **params: str) -> dict[str, Any]:
        """Change something as the administrator."""
        token = self._call(action="query", meta="tokens")["query"]["tokens"]["csrftoken"]
        return self._call(action=action, token=token, **params)

    def page_id(self, title: str) -> int:
        """The id of a page."""
        return self._call(action="query", titles=title)["query"]["pages"][0]["pageid"]

    def sign_in(self) -> None:
        """Start the session."""
        token = self._call(action="query", meta="tokens", type="login")["query"]["tokens"]["logintoken"]
        login = self._call(action="login", lgname=USER, lgpassword=PASSWORD, lgtoken=token)["login"]
        assert login["result"] == "Success", login

    def _call(self, **params: str) -> dict[str, Any]:
        response = self.session.post(self.api_url, data={**params, "format": "json", "formatversion": "2"})
        data = response.raise_for_status().json()
        assert "error" not in data, data
        return data


@contextmanager
def run_mediawiki(place: Path) -> Generator[MediaWiki]:
    """A new wiki with its data below `place`."""
    php = shutil.which("php")
    if php is None or not _SOURCE.exists():
        raise ServerUnavailable("it needs Debian's mediawiki with php-cli and php-sqlite3")
    port = free_port()
    options = {
        "dbtype": "sqlite",
        "dbname": "mill",
        "dbpath": str(place / "data"),
        "confpath": str(place),
        "server": f"http://127.0.0.1:{port}",
        "scriptpath": "",
        "pass": PASSWORD,
    }
    command = [
        php,
        str(_SOURCE / "maintenance/install.php"),
        *(f"--{name}={value}" for name, value in options.items()),
    ]
    ended = subprocess.run([*command, "Mill", USER], capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise ServerUnavailable(f"MediaWiki's installer failed: {ended.stdout[-300:]}{ended.stderr[-300:]}")
    env = {
        **os.environ,
        "MW_CONFIG_FILE": str(place / "LocalSettings.php"),
        "PHP_CLI_SERVER_WORKERS": _WORKERS,
    }
    serve = [php, "-S", f"127.0.0.1:{port}", "-t", str(_SOURCE)]
    with run_program(serve, port, place / "output", env=env), httpx.Client(timeout=60) as session:
        wiki = MediaWiki(port, _version(), session)
        wiki.sign_in()
        yield wiki


def _version() -> str:
    """The version that the package's files state."""
    defines = (_SOURCE / "includes/Defines.php").read_text()
    _, _, rest = defines.partition("'MW_VERSION', '")
    return rest.partition("'")[0]
