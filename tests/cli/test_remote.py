"""Commands with a server elsewhere: `--url` and `--key`, uploads instead of paths, and names of bases for the shell."""

import asyncio
import json
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from gristmill import app
from gristmill.cli import serve_lock
from gristmill.identity import LOCAL_ORG, Role
from tests.api_calls import make_base
from tests.cli.conftest import CommandOutcome, RunCommand
from tests.gristmill_process import run_command
from tests.serve_api import serve_api
from tests.server.clients import new_key

pytestmark = pytest.mark.slow


@asynccontextmanager
async def server_with_key(mill: app.Gristmill, role: Role = "admin") -> AsyncGenerator[tuple[str, str]]:
    """The address of a server, and a key."""
    _, key = await new_key(mill.db, LOCAL_ORG, role)
    async with serve_api(mill) as url:
        yield url, key


async def test_commands_use_the_server_that_is_named(
    mill: app.Gristmill, http: httpx.AsyncClient, run: RunCommand, tmp_path: Path
) -> None:
    """On the command line, before or after the command, or in the environment."""
    await make_base(http, "elsewhere")
    async with server_with_key(mill) as (url, key):
        (tmp_path / "key").write_text(f"{key}\n")
        commands: list[tuple[tuple[str, ...], dict[str, str]]] = [
            (("base", "list", "--url", url, "--key", key), {}),
            (("--url", f"{url}/", "--key", f"@{tmp_path / 'key'}", "base", "list"), {}),
            (("base", "list"), {"GRISTMILL_URL": url, "GRISTMILL_API_KEY": key}),
            (("--url", "http://127.0.0.1:9", "base", "list", "--url", url), {}),
        ]
        for words, variables in commands:
            outcome = await asyncio.to_thread(run, *words, "--json", **variables)
            assert [base["name"] for base in json.loads(outcome.stdout)] == ["elsewhere"], words
        wrong = await asyncio.to_thread(run, "base", "list", "--url", url, "--key", "gm_wrong")
        assert wrong.code == "bad_key"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("base", "list", "--url", "http://127.0.0.1:9", "--data-dir", "."), "bad_option"),
        (("--url", "http://127.0.0.1:9", "keys", "list"), "bad_option"),
        (("--url", "http://127.0.0.1:9", "doctor"), "bad_option"),
        (("base", "list", "--url", "nowhere"), "bad_setting"),
        (("base", "list", "--url", "http://127.0.0.1:9", "--key", "@/no/such/file"), "bad_option"),
        (("base", "list", "--url", "http://127.0.0.1:nine"), "no_answer"),
        (("base", "list", "--url", "http://127.0.0.1:9", "--key", "gm_…"), "bad_key"),
        (("import", "/no/such/archive", "--as", "manual"), "no_such_file"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    run: RunCommand, words: tuple[str, ...], code: str
) -> None:
    assert run(*words).code == code


class AnswerThatEndsEarly(BaseHTTPRequestHandler):
    """A server that has every base, and stops in the middle of an answer, or of the bytes that it announced."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._send(200, b'{"items": [{"id": "01a1de95-5507-701c-8741-d8b6405b3611"}], "nextCursor": null}')

    def do_POST(self) -> None:
        question = self.rfile.read(int(self.headers["Content-Length"]))
        missing = 100 if b"cut off" in question else 0
        self._send(200, b'event: text\ndata: {"text": "Within"}\n\n', missing)
        self.close_connection = True

    def _send(self, status: int, body: bytes, missing: int = 0) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body) + missing))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Be silent."""


@pytest.mark.parametrize("question", ["cut off?", "How long?"])
def test_an_answer_that_ends_early_is_reported(run: RunCommand, question: str) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), AnswerThatEndsEarly) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        outcome = run("ask", "handbook", question, "--url", url)
        server.shutdown()
    assert (outcome.code, outcome.stdout.strip()) == ("no_answer", "Within")


async def test_files_are_uploaded_to_a_server_elsewhere(
    mill: app.Gristmill, http: httpx.AsyncClient, run: RunCommand, tmp_path: Path
) -> None:
    """Its paths are not ours. What can't be sent is reported with its place on the command line."""
    (tmp_path / "wheat.md").write_text("Wheat is ground into flour.")

    def add(url: str, key: str) -> CommandOutcome:
        paths = [str(tmp_path), str(tmp_path / "gone.md"), str(tmp_path / "wheat.md"), "htp://oops"]
        return run("add", "grain", *paths, "--note", "Rye.", "--url", url, "--key", key, "--json")

    def estimate(url: str, key: str) -> CommandOutcome:
        words = ["add", "grain", str(tmp_path / "wheat.md"), "--note", "Barley.", "--dry-run"]
        return run(*words, "--url", url, "--key", key, "--json")

    async with server_with_key(mill, "editor") as (url, key):
        assert (await asyncio.to_thread(estimate, url, key)).code == "base_not_found"
        outcome = await asyncio.to_thread(add, url, key)
        estimated = json.loads((await asyncio.to_thread(estimate, url, key)).stdout)
    assert (estimated["documents"], estimated["exact"], estimated["failed"]) == (2, True, [])
    response = json.loads(outcome.stdout)
    assert sorted(item["title"] for item in response["created"]) == ["Rye.", "wheat.md"]
    failed = {entry["index"]: entry["error"]["code"] for entry in response["failed"]}
    assert failed == {0: "folder_elsewhere", 1: "source_gone", 3: "invalid_url"}
    uploaded = next(item for item in response["created"] if item["title"] == "wheat.md")
    assert (await http.get(f"/api/knowledge-items/{uploaded['id']}")).json()["source"] == {"name": "wheat.md"}


def completions(env: dict[str, str], line: str) -> list[str]:
    """What bash offers at the end of this line."""
    words = line.split(" ")
    variables = {
        "_GRISTMILL_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
    }
    process = run_command({**env, **variables})
    assert process.stderr == ""
    return process.stdout.split()


async def test_the_shell_completes_names_of_bases(
    mill: app.Gristmill, http: httpx.AsyncClient, env: dict[str, str], data_dir: Path
) -> None:
    """Of the server that runs, on the data dir or at `--url`. Without one there are none, and no error."""
    for name in ("handbook", "handicraft", "notes"):
        await make_base(http, name)

    async def complete(line: str) -> list[str]:
        return await asyncio.to_thread(completions, env, line)

    assert await complete("gristmill search hand") == []
    async with serve_api(mill) as url:
        assert await complete(f"gristmill --url {url} search hand") == ["handbook", "handicraft"]
        assert await complete(f"gristmill base delete --url {url} n") == ["notes"]
        with serve_lock.acquire(data_dir) as lock:
            lock.announce_url(url)
            assert await complete("gristmill item list no") == ["notes"]
    assert await complete("gristmill search x --mode ") == ["hybrid", "vector", "text"]
    assert await complete("gristmill --url http://127.0.0.1:9 search hand") == []
