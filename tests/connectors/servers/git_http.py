"""git's own HTTP backend, behind a password."""

import os
import subprocess
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gristmill.connectors.webdav import basic_authorization
from tests.connectors.fakes.wsgi import serve_wsgi

USER, PASSWORD = "git", "s3cret"


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


@contextmanager
def serve_repositories(root: Path) -> Generator[str]:
    """Serve the repositories in a folder; the address of the folder."""
    with serve_wsgi(_http_backend(root)) as address:
        yield address


def _http_backend(root: Path) -> Callable[..., Any]:
    """`git http-backend` as a WSGI application."""

    def serve(environ: dict[str, Any], start: Callable[..., Any]) -> list[bytes]:
        if environ.get("HTTP_AUTHORIZATION") != basic_authorization(USER, PASSWORD):
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
