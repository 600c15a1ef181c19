"""A server with sample data for screenshots and measurements: this project's documents, connectors, failures, and work in
progress."""

import io
import re
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw

from tests.answers.chat_endpoint import serve_chat
from tests.connectors.fakes.confluence import FakeConfluence
from tests.connectors.fakes.github import FakeGitHub
from tests.connectors.fakes.gitlab import FakeGitLab
from tests.connectors.fakes.jira import FakeJira
from tests.connectors.fakes.tool import FakeTool, serve_fake
from tests.embedding.endpoint import CannedResponse, EmbeddingRequest, hashed_vectors
from tests.gristmill_process import ServeProcess, run_serve
from tests.readers import samples
from tests.ui.harness import ApiHelper, ServerSetup, server_setup

ROOT = Path(__file__).parents[1]
CACHE = Path("/tmp/gristmill-tests-cache")
_NEVER = "0 0 29 2 *"
_GRAINS = ("Rye", "Oats", "Barley", "Spelt", "Emmer", "Buckwheat")


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
        chat = stack.enter_context(serve_chat())
        chat.reply = lambda _: [
            "A worker renews its lease while it works [1]. ",
            "If it stops, another takes over [2].",
        ]
        chat.may_go_on.set()
        setup = stack.enter_context(server_setup(None, CACHE, chat_url=chat.url, chat_model="miller"))
        server = stack.enter_context(run_serve(setup.env, log=setup.log))
        api = ApiHelper(stack.enter_context(server.client()))
        bases = {
            name: api.create_base(name, acl=["org:*"])
            for name in ("Mill handbook", "Support macros", "Field reports", "Contracts", "Archive")
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
        add_archive(api, bases["Archive"])
        connectors = {
            double.kind: create_synced_connector(api, stack, double, bases) for double in create_tools()
        }
        webhook = api.http.post(
            "/api/webhooks", json={"url": "http://127.0.0.1:9/hooks", "description": "Pager"}
        )
        add_people(api)
        for name, role in (("search page", "reader"), ("nightly import", "editor"), ("ops", "admin")):
            api.http.post("/api/api-keys", json={"name": name, "role": role})
        wait_until_idle(api)
        api.http.post(f"/api/knowledge-bases/{bases['Contracts']}/queue/pause")
        api.add_notes(
            bases["Contracts"], *(f"# Contract {n}\n\nBetween the mill and party {n}." for n in range(12))
        )
        yield Sample(server, setup, api, bases, connectors, webhook.json()["id"])


def add_people(api: ApiHelper) -> None:
    """Add users and a group."""
    for name, role in (("Ada Miller", "admin"), ("Ben Carter", "editor"), ("Cleo Sacks", "reader")):
        body = {"email": f"{name.split()[0].lower()}@mill.example", "name": name, "role": role}
        api.http.post("/api/users", json=body).raise_for_status()
    api.http.post("/api/groups", json={"name": "Millers"}).raise_for_status()


def write_documents(folder: Path) -> None:
    """Write this project's documentation: a folder for each page, a file for each section."""
    for page in sorted([*ROOT.glob("docs/*.md"), ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"]):
        page_folder = folder / page.stem.lower()
        page_folder.mkdir(parents=True, exist_ok=True)
        for section in re.split(r"^(?=#{1,2} )", page.read_text("utf-8"), flags=re.MULTILINE):
            title = re.sub(r"[^\w -]", "", section.partition("\n")[0]).strip().lower().replace(" ", "-")
            if title:
                (page_folder / f"{title[:60]}.md").write_text(section, "utf-8")


def add_archive(api: ApiHelper, base: str) -> None:
    """Add a PDF file, a drawing with words, a table, code, slides and sheets."""
    pages = [f"Folio {n}\nSo much grain came in, so much flour went out.\n" * 8 for n in range(1, 9)]
    pages[1] = (
        "The ledger of the mill\n \nThe heron stands beside the millrace at dusk.\nThen the sluice is closed."
    )
    picture = Image.new("RGB", (900, 500), "white")
    draw = ImageDraw.Draw(picture)
    draw.ellipse((90, 90, 410, 410), outline="black", width=8)
    draw.ellipse((220, 220, 280, 280), fill="black")
    draw.text((470, 200), "The runner stone\nturns above the\nbed stone", fill="black", font_size=44)
    buffer = io.BytesIO()
    picture.save(buffer, "PNG")
    prices = "\n".join(f"| {grain} | {18 + n} | {n % 3 + 1} |" for n, grain in enumerate(_GRAINS))
    text = f"# Grain prices\n\nThe price of grain is **set on Mondays**.\n\n| grain | price | sacks |\n|---|---|---|\n{prices}\n"
    files = {
        "ledger.pdf": samples.pdf(pages),
        "stones.png": buffer.getvalue(),
        "prices.md": f"{text}\n## Rules\n\n1. Rye is weighed twice.\n2. Wet grain is refused.\n\n> Ask the miller.\n".encode(),
        "tour.pptx": samples.pptx(
            [(f"Mill {n}", f"The wheel of mill {n} turns at dawn.") for n in range(1, 10)]
        ),
        "accounts.xlsx": samples.xlsx(
            {
                "Grain": [["Grain", "Price", "Sacks"]]
                + [[grain, f"{18 + n}", f"{n % 3 + 1}"] for n, grain in enumerate(_GRAINS)],
                "Flour": [["Mill", "Tons"], ["Upper mill", "12"], ["Lower mill", "9"]],
            }
        ),
        "mill.py": Path(__file__).read_bytes().replace(b"sample", b"grind"),
    }
    form = [("files", (name, data)) for name, data in files.items()]
    api.http.post(f"/api/knowledge-bases/{base}/files", files=form).raise_for_status()


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
