"""What every tool goes through, step by step. After each step the base equals the server, for every viewer, and no invariant is
violated.

    first        the first run reads everything
    unchanged    a run in which nothing changed ingests nothing
    changed      two edits and two new documents: these are read, and no others
    deleted      what is deleted at the tool is pruned
    renamed      a renamed or moved document keeps its record
    readers      another permission is taken over
    hidden       what is hidden is pruned; shown again, with its old date, it is back
    429 short    the tool asks for a pause of a second
    429 long     the tool asks for a pause that is too long for one request: the run says so, and continues
    outage       the tool is unreachable in the middle of a run: the run continues, without the schedule
    503          the same, but the tool responds with errors
    cut          connections are cut in the middle of responses
    kill -9      the worker is killed in the middle of a run: another one continues it
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bench.connectors_real.proxy import FaultAction, FaultProxy
from bench.connectors_real.system import NEVER, StepFailed, System, wait_for
from bench.connectors_real.tool import NotOffered, RealTool

RUN_SECONDS = 240.0
_CUTS = 3
_ALL = 1_000_000
_SHORT_WAIT, _LONG_WAIT = 1, 21  # seconds; a request itself waits 20 at most


@dataclass(frozen=True)
class Outcome:
    """How a step ended: `ok`, `skipped` or `failed`, with a remark."""

    step: str
    status: str
    remark: str
    seconds: float


@dataclass
class ToolReport:
    """What a tool went through, and its requests."""

    tool: str
    server: str
    outcomes: list[Outcome] = field(default_factory=list[Outcome])
    documents: int = 0
    first_requests: int = 0
    unchanged_requests: int = 0
    unavailable: str | None = None

    @property
    def has_failed(self) -> bool:
        """Whether any step failed."""
        return any(outcome.status == "failed" for outcome in self.outcomes)


class Story:
    """A connector to a tool through its proxy, and the base that it feeds."""

    def __init__(self, system: System, tool: RealTool, proxy: FaultProxy, outage: float) -> None:
        self._system, self._tool, self._proxy, self._outage = system, tool, proxy, outage
        self.report = ToolReport(tool.name, tool.server)
        self._base = system.post("/knowledge-bases", {"name": tool.name, "acl": ["org:*"]})["id"]
        self._connector = system.post(
            "/connectors",
            {
                "name": tool.name,
                "type": tool.kind,
                "config": tool.config(proxy.url),
                "credentials": tool.credentials(),
                "knowledgeBaseIds": [self._base],
                "schedule": NEVER,
                "aclSchedule": NEVER,
                "acl": tool.acl,
            },
        )["id"]

    def run_steps(self) -> ToolReport:
        """Go through all steps; one that fails does not end the others."""
        steps: list[tuple[str, Callable[[], str]]] = [
            ("first", self._read_everything),
            ("unchanged", self._read_nothing),
            ("changed", self._follow_changes),
            ("deleted", self._follow_deletions),
            ("renamed", self._follow_rename),
            ("readers", self._follow_permissions),
            ("hidden", self._follow_hiding),
            ("429 short", self._wait_out_short_limit),
            ("429 long", self._wait_out_long_limit),
            ("outage", self._survive_outage),
            ("503", self._survive_errors),
            ("cut", self._survive_cuts),
            ("kill -9", self._survive_kill),
        ]
        for name, step in steps:
            began = time.monotonic()
            status, remark = "ok", ""
            try:
                remark = step()
            except NotOffered as reason:
                status, remark = "skipped", str(reason)
            except (StepFailed, AssertionError, OSError) as error:
                status, remark = "failed", str(error)
            finally:
                self._proxy.reset()
            seconds = time.monotonic() - began
            self.report.outcomes.append(Outcome(name, status, remark, seconds))
            print(f"{self._tool.name:20} {name:10} {status:8} {seconds:6.1f} s  {remark}", flush=True)
            if name == "first" and status == "failed":
                break
        return self.report

    # ── steps ────────────────────────────────────────────────────────────────────────────────────────────

    def _read_everything(self) -> str:
        self._proxy.reset()
        run = self._sync()
        count = len(self._tool.expected_documents())
        self._require(run, ingested=count)
        self.report.documents, self.report.first_requests = count, self._proxy.count
        return f"{count} documents, {self._proxy.count} requests"

    def _read_nothing(self) -> str:
        run = self._sync()
        self._require(run, ingested=0)
        self.report.unchanged_requests = self._proxy.count
        return f"{self._proxy.count} requests"

    def _follow_changes(self) -> str:
        changed = self._change()
        run = self._sync()
        if self._tool.changes_are_counted:
            self._require(run, ingested=len(changed))
        return f"{len(changed)} documents, {self._proxy.count} requests"

    def _follow_deletions(self) -> str:
        gone = self._tool.delete()
        gone |= self._tool.delete() if len(self._tool.expected_documents()) > 12 else set()
        run = self._sync()
        gone -= set(self._tool.expected_documents())
        if run["documentsPruned"] != len(gone):
            raise StepFailed(f"{run['documentsPruned']} documents pruned instead of {len(gone)}")
        return f"{len(gone)} documents"

    def _follow_rename(self) -> str:
        before = self._system.record_ids(self._base)
        move = self._tool.rename()
        self._sync()
        if not self._tool.keeps_record_when_renamed:
            raise NotOffered("what is renamed has another mark, and is another record")
        after = self._system.record_ids(self._base)
        if before[move.old_id] != after[move.new_id]:
            raise StepFailed(f"{move.new_id} has a new record")
        return "same record"

    def _follow_permissions(self) -> str:
        self._tool.change_permission()
        self._sync()
        self._tool.change_permission()
        self._sync()
        return "there and back"

    def _follow_hiding(self) -> str:
        hidden = self._tool.hide()
        self._sync()
        self._tool.show()
        self._sync()
        return f"{len(hidden)} documents"

    def _wait_out_short_limit(self) -> str:
        self._require_http()
        self._change()
        self._proxy.plan("limit", after=1, retry_after=_SHORT_WAIT)
        self._sync()
        return ""

    def _wait_out_long_limit(self) -> str:
        self._require_http()
        self._change()
        self._proxy.plan("limit", after=1, times=self._tool.limited_requests, retry_after=_LONG_WAIT)
        run_id = self._start()

        def limit_of_run() -> str | None:
            return self._system.get(f"/connector-runs/{run_id}")["rateLimitedUntil"]

        wait_for(limit_of_run, RUN_SECONDS)
        self._finish(run_id)
        return "the run showed until when"

    def _survive_outage(self) -> str:
        run_id = self._start_and_interrupt()
        self._proxy.refuse()
        self._proxy.release()
        time.sleep(self._outage)
        self._proxy.open()
        reachable = time.monotonic()
        self._finish(run_id)
        return f"{self._outage:.0f} s down; the run ended {time.monotonic() - reachable:.0f} s later"

    def _survive_errors(self) -> str:
        self._require_http()
        run_id = self._start_and_interrupt("error", times=_ALL)
        time.sleep(self._outage)
        self._proxy.reset()
        reachable = time.monotonic()
        self._finish(run_id)
        return f"{self._outage:.0f} s of errors; the run ended {time.monotonic() - reachable:.0f} s later"

    def _survive_cuts(self) -> str:
        self._change()
        self._proxy.plan("cut", after=max(1, self._interrupt_at() - 1), times=_CUTS)
        self._sync()
        return f"{_CUTS} connections"

    def _survive_kill(self) -> str:
        run_id = self._start_and_interrupt()
        self._system.kill_worker()
        self._proxy.release()
        killed = time.monotonic()
        self._finish(run_id)
        return f"the run ended {time.monotonic() - killed:.0f} s after the kill"

    # ── helpers ──────────────────────────────────────────────────────────────────────────────────────────

    def _change(self) -> set[str]:
        """Two edits, where the tool has them, and two new documents; their ids."""
        changed: set[str] = set()
        for _ in range(2):
            try:
                changed |= self._tool.edit()
            except NotOffered:
                continue
        for _ in range(2):
            changed |= self._tool.add()
        return changed

    def _interrupt_at(self) -> int:
        return self.report.unchanged_requests + self._tool.interrupt_after - 1

    def _start_and_interrupt(self, action: FaultAction = "hold", times: int = 1) -> str:
        """A run that stops in the middle of its work, because a request of it waits or fails; its id."""
        self._change()
        self._proxy.plan(action, after=self._interrupt_at(), times=times)
        run_id = self._start()
        if not self._proxy.reached.wait(RUN_SECONDS):
            raise StepFailed(f"the run made only {self._proxy.count} requests")
        return run_id

    def _require_http(self) -> None:
        if self._proxy.upstream.protocol != "http":
            raise NotOffered("its protocol has no such response")

    def _start(self) -> str:
        self._tool.end_change()
        path = f"/connectors/{self._connector}/sync"
        return self._system.post(path, {"allowDeletions": True})["runId"]

    def _finish(self, run_id: str) -> dict[str, Any]:
        run = self._system.end_of_run(run_id, RUN_SECONDS)
        self._system.compare(self._base, self._tool.expected_documents())
        return run

    def _sync(self) -> dict[str, Any]:
        return self._finish(self._start())

    def _require(self, run: dict[str, Any], *, ingested: int) -> None:
        if run["documentsIngested"] != ingested:
            raise StepFailed(f"{run['documentsIngested']} documents ingested instead of {ingested}")
