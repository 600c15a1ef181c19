"""A server with something in it, for pictures and measurements: this project's own documents, tools that are followed,
things that failed, and work that is under way."""

import re
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.connectors.double import Double, following
from tests.connectors.doubles.confluence import ConfluenceDouble
from tests.connectors.doubles.github import GitHubDouble
from tests.connectors.doubles.gitlab import GitLabDouble
from tests.connectors.doubles.jira import JiraDouble
from tests.embedding.endpoint import Answer, Asked, hashed_vectors
from tests.process import Served, served
from tests.ui.harness import Hand, Surroundings, surroundings

ROOT = Path(__file__).parents[1]
CACHE = Path("/tmp/gristmill-tests-cache")
_NEVER = "0 0 29 2 *"


@dataclass(frozen=True)
class Sample:
    """The server, what it holds by name, and the hand that filled it."""

    server: Served
    around: Surroundings
    hand: Hand
    bases: dict[str, str]
    connectors: dict[str, str]
    webhook: str

    def slow_down(self, seconds: float) -> None:
        """Have the embedder take its time from now on."""

        def slowly(asked: Asked) -> Answer:
            time.sleep(seconds)
            return hashed_vectors(asked)

        self.around.embedder.answer = slowly


@contextmanager
def sample() -> Generator[Sample]:
    """The sample, until the end of the block."""
    with ExitStack() as stack:
        around = stack.enter_context(surroundings(None, CACHE))
        server = stack.enter_context(served(around.env, log=around.log))
        hand = Hand(stack.enter_context(server.client()))
        bases = {
            name: hand.base(name, acl=["org:*"])
            for name in ("Mill handbook", "Support macros", "Field reports", "Contracts")
        }
        folder = around.folder / "handbook"
        write_documents(folder)
        add(hand, bases["Mill handbook"], {"type": "directory", "path": str(folder)})
        add(
            hand,
            bases["Mill handbook"],
            {"type": "note", "title": "Who to call", "content": "Ask the miller."},
        )
        hand.notes(
            bases["Support macros"], *(f"# Macro {n}\n\nAnswer number {n}, kindly." for n in range(24))
        )
        hand.unreadable(bases["Field reports"], "scan-0412.bin", "dump.dat", "tape-7.img")
        hand.notes(bases["Field reports"], *(f"# Report {n}\n\nThe stones ran {n} hours." for n in range(12)))
        connectors = {double.kind: follow(hand, stack, double, bases) for double in tools()}
        hook = hand.http.post(
            "/api/webhooks", json={"url": "http://127.0.0.1:9/hooks", "description": "Pager"}
        )
        for name, role in (("search page", "reader"), ("nightly import", "editor"), ("ops", "admin")):
            hand.http.post("/api/api-keys", json={"name": name, "role": role})
        rest(hand)
        hand.http.post(f"/api/knowledge-bases/{bases['Contracts']}/queue/pause")
        hand.notes(
            bases["Contracts"], *(f"# Contract {n}\n\nBetween the mill and party {n}." for n in range(12))
        )
        yield Sample(server, around, hand, bases, connectors, hook.json()["id"])


def write_documents(folder: Path) -> None:
    """This project's pages, a file for each section, a folder for each page."""
    for page in sorted([*ROOT.glob("docs/*.md"), ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"]):
        place = folder / page.stem.lower()
        place.mkdir(parents=True, exist_ok=True)
        for part in re.split(r"^(?=#{1,2} )", page.read_text("utf-8"), flags=re.MULTILINE):
            title = re.sub(r"[^\w -]", "", part.partition("\n")[0]).strip().lower().replace(" ", "-")
            if title:
                (place / f"{title[:60]}.md").write_text(part, "utf-8")


def add(hand: Hand, base: str, item: dict[str, Any]) -> None:
    """One item."""
    hand.http.post(f"/api/knowledge-bases/{base}/items", json={"items": [item]}).raise_for_status()


def tools() -> list[Double]:
    """The tools that are followed."""
    return [GitHubDouble(), JiraDouble(), ConfluenceDouble(), GitLabDouble()]


def follow(hand: Hand, stack: ExitStack, double: Double, bases: dict[str, str]) -> str:
    """A connector that has run; GitLab's has a key that is refused."""
    stack.enter_context(following(double))
    names = {"github": "Engineering", "jira": "Tickets", "confluence": "Wiki", "gitlab": "Infrastructure"}
    schedules = {"github": "0 */6 * * *", "jira": "*/30 * * * *", "confluence": "0 2 * * *"}
    asked = {
        "name": names[double.kind],
        "type": double.kind,
        "config": double.config(),
        "credentials": {"token": "none"} if double.kind == "gitlab" else double.credentials(),
        "schedule": schedules.get(double.kind, "0 3 * * 1-5"),
        "aclSchedule": _NEVER,
        "knowledgeBaseIds": [bases["Mill handbook"]],
    }
    made = hand.http.post("/api/connectors", json=asked)
    assert made.status_code == 201, made.text
    connector: str = made.json()["id"]
    for _ in range(3 if double.kind == "github" else 1):
        double.add()
        double.tick()
        hand.http.post(f"/api/connectors/{connector}/sync").raise_for_status()
        ended(hand, connector)
    return connector


def ended(hand: Hand, connector: str) -> None:
    """Wait for the end of the open run."""
    while not hand.http.get(f"/api/connectors/{connector}/runs").json()["items"][0]["completedAt"]:
        time.sleep(0.1)


def rest(hand: Hand) -> None:
    """Wait until nothing is under way."""
    while any(hand.http.get("/api/queue").json()[name] for name in ("running", "waiting")):
        time.sleep(0.2)
