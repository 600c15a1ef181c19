"""A server with sample data for screenshots and measurements: this project's documents, connectors, failures, and work in
progress."""

import re
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.connectors.fakes.confluence import FakeConfluence
from tests.connectors.fakes.github import FakeGitHub
from tests.connectors.fakes.gitlab import FakeGitLab
from tests.connectors.fakes.jira import FakeJira
from tests.connectors.fakes.tool import FakeTool, serve_fake
from tests.embedding.endpoint import CannedResponse, EmbeddingRequest, hashed_vectors
from tests.gristmill_process import ServeProcess, run_serve
from tests.ui.harness import ApiHelper, ServerSetup, server_setup

ROOT = Path(__file__).parents[1]
CACHE = Path("/tmp/gristmill-tests-cache")
_NEVER = "0 0 29 2 *"


@dataclass(frozen=True)
class Sample:
    """The server, its API, and the ids of its data by name."""

    server: ServeProcess
    setup: ServerSetup
    api: ApiHelper
    bases: dict[str, str]
    connectors: dict[str, str]
    webhook: str

    def slow_down(self, seconds: float) -> None:
        """Make the embedder slow from now on."""

        def answer_slowly(request: EmbeddingRequest) -> CannedResponse:
            time.sleep(seconds)
            return hashed_vectors(request)

        self.setup.embedder.respond = answer_slowly


@contextmanager
def sample() -> Generator[Sample]:
    """A server with sample data, for the length of the block."""
    with ExitStack() as stack:
        setup = stack.enter_context(server_setup(None, CACHE))
        server = stack.enter_context(run_serve(setup.env, log=setup.log))
        api = ApiHelper(stack.enter_context(server.client()))
        bases = {
            name: api.create_base(name, acl=["org:*"])
            for name in ("Mill handbook", "Support macros", "Field reports", "Contracts")
        }
        folder = setup.folder / "handbook"
        write_documents(folder)
        add_item(api, bases["Mill handbook"], {"type": "directory", "path": str(folder)})
        add_item(
            api,
            bases["Mill handbook"],
            {"type": "note", "title": "Who to call", "content": "Ask the miller."},
        )
        api.add_notes(
            bases["Support macros"], *(f"# Macro {n}\n\nAnswer number {n}, kindly." for n in range(24))
        )
        api.add_unreadable_files(bases["Field reports"], "scan-0412.bin", "dump.dat", "tape-7.img")
        api.add_notes(
            bases["Field reports"], *(f"# Report {n}\n\nThe stones ran {n} hours." for n in range(12))
        )
        connectors = {
            double.kind: create_synced_connector(api, stack, double, bases) for double in create_tools()
        }
        webhook = api.http.post(
            "/api/webhooks", json={"url": "http://127.0.0.1:9/hooks", "description": "Pager"}
        )
        for name, role in (("search page", "reader"), ("nightly import", "editor"), ("ops", "admin")):
            api.http.post("/api/api-keys", json={"name": name, "role": role})
        wait_until_idle(api)
        api.http.post(f"/api/knowledge-bases/{bases['Contracts']}/queue/pause")
        api.add_notes(
            bases["Contracts"], *(f"# Contract {n}\n\nBetween the mill and party {n}." for n in range(12))
        )
        yield Sample(server, setup, api, bases, connectors, webhook.json()["id"])


def write_documents(folder: Path) -> None:
    """Write this project's documentation: a folder for each page, a file for each section."""
    for page in sorted([*ROOT.glob("docs/*.md"), ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"]):
        page_folder = folder / page.stem.lower()
        page_folder.mkdir(parents=True, exist_ok=True)
        for section in re.split(r"^(?=#{1,2} )", page.read_text("utf-8"), flags=re.MULTILINE):
            title = re.sub(r"[^\w -]", "", section.partition("\n")[0]).strip().lower().replace(" ", "-")
            if title:
                (page_folder / f"{title[:60]}.md").write_text(section, "utf-8")


def add_item(api: ApiHelper, base: str, item: dict[str, Any]) -> None:
    """Add one item."""
    api.http.post(f"/api/knowledge-bases/{base}/items", json={"items": [item]}).raise_for_status()


def create_tools() -> list[FakeTool]:
    """Fake tools for the connectors."""
    return [FakeGitHub(), FakeJira(), FakeConfluence(), FakeGitLab()]


def create_synced_connector(api: ApiHelper, stack: ExitStack, double: FakeTool, bases: dict[str, str]) -> str:
    """Create a connector and run it; the one of GitLab has a token that is rejected."""
    stack.enter_context(serve_fake(double))
    names = {"github": "Engineering", "jira": "Tickets", "confluence": "Wiki", "gitlab": "Infrastructure"}
    schedules = {"github": "0 */6 * * *", "jira": "*/30 * * * *", "confluence": "0 2 * * *"}
    payload = {
        "name": names[double.kind],
        "type": double.kind,
        "config": double.config(),
        "credentials": {"token": "none"} if double.kind == "gitlab" else double.credentials(),
        "schedule": schedules.get(double.kind, "0 3 * * 1-5"),
        "aclSchedule": _NEVER,
        "knowledgeBaseIds": [bases["Mill handbook"]],
    }
    response = api.http.post("/api/connectors", json=payload)
    assert response.status_code == 201, response.text
    connector: str = response.json()["id"]
    for _ in range(3 if double.kind == "github" else 1):
        double.add()
        double.advance_clock()
        api.http.post(f"/api/connectors/{connector}/sync").raise_for_status()
        wait_for_run(api, connector)
    return connector


def wait_for_run(api: ApiHelper, connector: str) -> None:
    """Wait until the current run has ended."""
    while not api.http.get(f"/api/connectors/{connector}/runs").json()["items"][0]["completedAt"]:
        time.sleep(0.1)


def wait_until_idle(api: ApiHelper) -> None:
    """Wait until no job is running or waiting."""
    while any(api.http.get("/api/queue").json()[name] for name in ("running", "waiting")):
        time.sleep(0.2)
