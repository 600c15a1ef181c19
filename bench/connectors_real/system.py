"""The Gristmill under test: a real `gristmill serve`, reached over its API as an admin and as people who may see only some documents."""

import os
import signal
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import httpx

from bench.connectors_real.tool import VIEWERS
from tests import reverse_proxy
from tests.connectors.fakes.tool import ExpectedDocument, words_in
from tests.embedding import endpoint
from tests.gristmill_process import ServeProcess, environment, run_serve

NEVER = "0 0 29 2 *"
_LEASE_SECONDS = "2"
_LOOK_EVERY = 0.1
_PAGE = 500

Result = TypeVar("Result")


class StepFailed(Exception):
    """A step did not end as it must; the message says what is wrong."""


@dataclass(frozen=True)
class System:
    """A running Gristmill."""

    server: ServeProcess
    admin: httpx.Client
    viewers: dict[str, httpx.Client]

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Post as the admin."""
        response = self.admin.post(f"/api{path}", json=body)
        if not response.is_success:
            raise StepFailed(f"{path}: {response.text[:300]}")
        return response.json()

    def get(self, path: str) -> dict[str, Any]:
        """Get as the admin."""
        response = self.admin.get(f"/api{path}")
        if not response.is_success:
            raise StepFailed(f"{path}: {response.text[:300]}")
        return response.json()

    def kill_worker(self) -> None:
        """kill -9 of the process that runs jobs; its supervisor starts another."""
        pid = self.server.child_pids()["worker-1"]
        os.kill(pid, signal.SIGKILL)

    def end_of_run(self, run_id: str, limit: float) -> dict[str, Any]:
        """A run, once it has ended in success."""

        def ended_run() -> dict[str, Any] | None:
            run = self.get(f"/connector-runs/{run_id}")
            return run if run["completedAt"] is not None else None

        try:
            run = wait_for(ended_run, limit)
        except StepFailed:
            run = self.get(f"/connector-runs/{run_id}")
            raise StepFailed(f"the run has not ended after {limit:.0f} s: {self._log(run_id)}") from None
        if run["status"] != "success":
            raise StepFailed(f"the run ended as {run['status']}: {self._log(run_id)}")
        return run

    def _log(self, run_id: str) -> str:
        lines = self.get(f"/connector-runs/{run_id}/logs?limit=500")["items"]
        return " / ".join(line["message"] for line in lines[-4:])[:600]

    def record_ids(self, base_id: str) -> dict[str, str]:
        """The ids of the records of a base by the ids that the tool gave."""
        return {key: item["id"] for key, item in self._items(self.admin, base_id).items()}

    def compare(self, base_id: str, expected: dict[str, ExpectedDocument]) -> None:
        """Compare texts, readers and invariants with what they must be."""
        items = self._items(self.admin, base_id)
        _compare_ids("the base", set(items), set(expected))
        for key, item in items.items():
            if item["status"] != "completed":
                raise StepFailed(f"{key} is {item['status']}: {item.get('error')}")
            content = self.admin.get(f"/api/knowledge-items/{item['id']}/content").text
            if words_in(content) != expected[key].words:
                raise StepFailed(f"{key} has other words than at the server: {content[:100]!r}")
        for email, client in self.viewers.items():
            visible = {key for key, document in expected.items() if _may_see(email, document)}
            _compare_ids(f"the list of {email}", set(self._items(client, base_id)), visible)
            hits = self._search(client, base_id, expected)
            found = {key for key, item in items.items() if item["id"] in hits}
            _compare_ids(f"the search of {email}", found, visible)
        wait_for(lambda: self.get("/health/invariants") == {"violations": []} or None, 30)

    def _items(self, client: httpx.Client, base_id: str) -> dict[str, dict[str, Any]]:
        response = client.get(f"/api/knowledge-bases/{base_id}/items?parentId=*&type=record&limit={_PAGE}")
        if not response.is_success:
            raise StepFailed(response.text[:300])
        items = response.json()["items"]
        by_key = {item["source"]["sourceId"]: item for item in items}
        if len(by_key) != len(items):
            raise StepFailed("a document has two records")
        return by_key

    def _search(self, client: httpx.Client, base_id: str, expected: dict[str, ExpectedDocument]) -> set[str]:
        """The ids of the records that a search for a word of each document finds."""
        words = sorted(min(document.words) for document in expected.values() if document.words)
        body = {"query": " ".join(words), "limit": 100, "mode": "text", "minScore": 0}
        response = client.post(f"/api/knowledge-bases/{base_id}/search", json=body)
        if not response.is_success:
            raise StepFailed(response.text[:300])
        return {hit["itemId"] for hit in response.json()["hits"]}


def wait_for(condition: Callable[[], Result | None], limit: float) -> Result:
    """Wait until there is a result."""
    end = time.monotonic() + limit
    while (result := condition()) is None:
        if time.monotonic() > end:
            raise StepFailed(f"still not so after {limit:.0f} s")
        time.sleep(_LOOK_EVERY)
    return result


def _compare_ids(where: str, actual: set[str], expected: set[str]) -> None:
    if actual == expected:
        return
    missing, extra = sorted(expected - actual), sorted(actual - expected)
    raise StepFailed(
        f"{where} lacks {len(missing)} documents {missing[:3]} and has {len(extra)} too many {extra[:3]}"
    )


def _may_see(email: str, document: ExpectedDocument) -> bool:
    return not document.acl.isdisjoint({"org:*", f"user_email:{email}"})


@contextmanager
def run_system(folder: Path) -> Generator[System]:
    """A Gristmill with its own PostgreSQL below `folder`, and with an embedder that costs nothing."""
    with ExitStack() as stack:
        embedder = stack.enter_context(endpoint.serve())
        settings = {
            **endpoint.embedder_settings(embedder.url),
            "lease": _LEASE_SECONDS,
            "log_level": "warning",
        }
        env = environment(folder / "data", folder / "cache", **settings)
        # Dovecot has a certificate of this process.
        env["SSL_CERT_FILE"] = str(reverse_proxy.certificate().path)
        server = stack.enter_context(run_serve(env, log=folder / "gristmill.log"))
        stack.callback(server.stop)
        admin = stack.enter_context(server.client())
        yield System(
            server, admin, {email: stack.enter_context(_viewer(server, admin, email)) for email in VIEWERS}
        )


def _viewer(server: ServeProcess, admin: httpx.Client, email: str) -> httpx.Client:
    """A client that sees what this person may see."""
    body = {"name": email, "role": "reader", "principal": {"email": email}}
    response = admin.post("/api/api-keys", json=body)
    assert response.is_success, response.text
    headers = {"Authorization": f"Bearer {response.json()['key']}"}
    return httpx.Client(base_url=server.url, headers=headers, timeout=30, trust_env=False)
