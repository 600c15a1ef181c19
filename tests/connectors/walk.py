"""A walk: any sequence of changes, hides, shows and faults in a tool, and of runs of its connector, step by step.

    in the tool     add, edit, delete, move, hide (the credentials lose sight of a document), edit_hidden, show (it is there again,
                    with its old date), permission, restrict, time
    in the next run forbidden, limited, limited_long, unavailable, cut, gone, rejected, changing (the tool changes between any two
                    requests). A run uses up the faults that were announced before it
    of Gristmill    sync, access (the permissions alone), cancel, crash (an attempt ends at a fault point, on either side of a
                    commit), take_over (another worker gets the job while the first one still runs it), overlap (permissions change
                    and are refreshed while a run is under way)
    checks          check, and dry_run: what it says is what the next run does, and it changes nothing itself

A check is a run that nothing disturbs. After it the base equals the tool, word by word; every person that the tool knows finds
what the tool shows them, a stranger finds what everyone may see, and an admin finds everything; no invariant is violated.

Steps are plain values, so that a walk can be repeated and shortened: `python -m bench.connector_walk`.
"""

import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from gristmill import faults, jobs
from gristmill.connectors import admin
from gristmill.connectors.model import ConnectorRun
from gristmill.jobs import NewJob
from gristmill.work import SyncAccess
from tests.connectors.fakes.tool import FakeCall, FakeTool, cut_off, failing, rate_limited
from tests.connectors.harness import ConnectorHarness
from tests.wait_until import wait_until

STRANGER = "stranger@example.org"
# How often each step is drawn.
CHANGES = {
    "add": 4,
    "edit": 8,
    "delete": 4,
    "move": 2,
    "hide": 3,
    "edit_hidden": 1,
    "show": 4,
    "permission": 3,
    "restrict": 2,
    "time": 4,
}
FAULTS = {
    "forbidden": 2,
    "limited": 1,
    "limited_long": 1,
    "unavailable": 2,
    "cut": 1,
    "gone": 2,
    "rejected": 1,
    "changing": 4,
}
RUNS = {
    "sync": 5,
    "access": 2,
    "cancel": 2,
    "crash": 2,
    "take_over": 1,
    "overlap": 2,
    "check": 2,
    "dry_run": 2,
}
_SECONDS = (0, 1, 5, 61, 7200, 100_000)
_CRASH_POINTS = (
    *("sync.opened", "sync.before_commit", "sync.before_commit", "sync.saved", "sync.saved"),
    *("moves.before_commit", "prune.asked", "prune.before_commit", "sync.before_end"),
)
# Between transactions: one that is held would keep the job's row locked.
_HOLD_POINTS = ("sync.opened", "sync.saved", "sync.saved", "prune.asked")


@dataclass(frozen=True)
class WalkStep:
    """A step; `pick` chooses what it is done to."""

    name: str
    pick: int

    def __str__(self) -> str:
        return f"{self.name}:{self.pick}"


def parse_steps(text: str) -> list[WalkStep]:
    """The steps of a walk that was printed."""
    return [WalkStep(name, int(pick)) for name, _, pick in (part.partition(":") for part in text.split())]


def draw_steps(dice: random.Random, count: int) -> list[WalkStep]:
    """Some changes, sometimes faults, then a run; again and again."""
    steps: list[WalkStep] = []
    while len(steps) < count:
        names = _draw(dice, CHANGES, dice.randint(0, 4))
        names += _draw(dice, FAULTS, dice.choice((0, 0, 1, 1, 2)))
        steps += [WalkStep(name, dice.randrange(1000)) for name in (*names, *_draw(dice, RUNS, 1))]
    return steps


def _draw(dice: random.Random, weights: dict[str, int], count: int) -> list[str]:
    return dice.choices(list(weights), list(weights.values()), k=count)


class ConnectorWalk:
    """A walk over one tool; `taken` are the steps so far."""

    def __init__(self, harness: ConnectorHarness) -> None:
        self._harness, self._tool = harness, harness.tool
        self.taken: list[WalkStep] = []
        self._emails: set[str] = set()
        self._only_access_changed = False  # since the last check

    async def walk(self, steps: Sequence[WalkStep]) -> None:
        """Take all steps, and check the base at the end. An error says after which steps it came."""
        try:
            for step in (*steps, WalkStep("check", 0)):
                self.taken.append(step)
                await self._take(step)
        except BaseException as error:
            error.add_note(f"{self._tool.kind}: {' '.join(map(str, self.taken))}")
            raise

    async def _take(self, step: WalkStep) -> None:
        if step.name in CHANGES:
            with self._tool.lock:
                self._change(step)
        elif step.name in FAULTS:
            self._announce(step)
        else:
            runs: dict[str, Callable[[int], Awaitable[object]]] = {
                "sync": self._sync,
                "access": self._access,
                "cancel": self._cancel,
                "crash": self._crash,
                "take_over": self._take_over,
                "overlap": self._overlap,
                "check": self._check,
                "dry_run": self._dry_run,
            }
            await runs[step.name](step.pick)
            self._tool.rules.clear()

    # ── the tool ─────────────────────────────────────────────────────────────────────────────────────────

    def _change(self, step: WalkStep) -> None:
        tool = self._tool
        acts: dict[str, Callable[[int], None]] = {
            "add": lambda _: tool.add(),
            "edit": tool.edit,
            "delete": tool.delete,
            "move": tool.move_document,
            "hide": tool.hide,
            "edit_hidden": tool.edit_hidden,
            "show": tool.reveal,
            "permission": tool.change_permission,
            "restrict": tool.restrict,
            "time": lambda pick: tool.advance_clock(_SECONDS[pick % len(_SECONDS)]),
        }
        is_access = step.name in ("permission", "restrict")
        if is_access and not tool.has_permissions:
            return
        acts[step.name](step.pick)
        self._emails |= tool.known_emails()
        self._only_access_changed &= is_access or step.name == "time"

    def _announce(self, step: WalkStep) -> None:
        tool, pick = self._tool, step.pick
        # The first requests of a run find out what there is; details come later, and there are fewer lists.
        is_wanted = tool.is_detail if pick % 2 else _is_any
        after = pick // 2 % (6 if pick % 3 else 30)
        match step.name:
            case "forbidden":
                tool.add_rule(same_request(tool, pick % 5), failing(tool, 403), times=10_000)
            case "limited":
                tool.add_rule(is_wanted, rate_limited(tool, seconds=0), after=after, times=1 + pick % 2)
            case "limited_long":
                tool.add_rule(is_wanted, rate_limited(tool), after=after)
            case "unavailable":
                tool.add_rule(is_wanted, failing(tool, (500, 503)[pick % 2]), after=after, times=1 + pick % 9)
            case "cut":
                tool.add_rule(is_wanted, cut_off, after=after, times=1 + pick % 5)
            case "gone":
                tool.add_rule(_is_not_detail(tool) if pick % 2 else _is_any, failing(tool, 404), after=after)
            case "rejected":
                tool.add_rule(_is_any, failing(tool, 401), after=after)
            case _:
                dice = random.Random(pick)
                names = [name for name in CHANGES if name != "time"]

                def change() -> None:
                    self._change(WalkStep(dice.choice(names), dice.randrange(1000)))
                    tool.advance_clock(dice.choice((0, 0, 1, 5)))

                tool.add_rule(_is_any, change, after=pick % 7, times=1 + pick % 5)

    # ── runs ─────────────────────────────────────────────────────────────────────────────────────────────

    async def _sync(self, pick: int) -> None:
        self._tool.advance_clock(pick % 3)
        await self._complete(await self._harness.start(allow_deletions=pick % 4 > 0, force=pick % 7 == 0))

    async def _complete(self, run: ConnectorRun) -> ConnectorRun:
        """Let a run end, without the waits that the tool asks for."""

        async def ended_run() -> ConnectorRun | None:
            current = await self._harness.reload_run(run)
            if current.completed_at is not None:
                return current
            await self._harness.run_delayed_jobs()
            return None

        return await wait_until(ended_run)

    async def _access(self, pick: int) -> None:
        del pick
        is_disturbed = bool(self._tool.rules)
        connector = self._harness.connector
        async with self._harness.mill.db.transaction() as tx:
            await jobs.enqueue(tx, NewJob(SyncAccess(connector.id), lane=connector.lane))

        async def is_over() -> bool:
            await self._harness.run_delayed_jobs()
            pending = "select 1 from job where kind = 'sync_access' and state <> 'dead'"
            return await self._harness.fetch(pending) == []

        await wait_until(is_over)
        if self._only_access_changed and not is_disturbed:
            await self._harness.assert_matches_tool()
            await self._check_viewers()

    async def _cancel(self, pick: int) -> None:
        with faults.watch(_HOLD_POINTS[pick % len(_HOLD_POINTS)], hold=True) as watch:
            run = await self._harness.start(allow_deletions=True)
            if await self._reach(run, watch, passes=pick % 5):
                await admin.cancel_sync(self._harness.mill.db, self._harness.connector.id)
        await self._wait_until_idle()

    async def _crash(self, pick: int) -> None:
        point = _CRASH_POINTS[pick % len(_CRASH_POINTS)]
        faults.arm(f"{point}=fail@{1 + pick % 4}")
        try:
            await self._complete(await self._harness.start(allow_deletions=True))
        finally:
            faults.disarm()

    async def _take_over(self, pick: int) -> None:
        with faults.watch(_HOLD_POINTS[pick % len(_HOLD_POINTS)], hold=True) as watch:
            run = await self._harness.start(allow_deletions=True)
            if await self._reach(run, watch, passes=pick % 5):
                await self._requeue(run.job_id)
        await self._complete(run)
        await self._wait_until_idle()

    async def _overlap(self, pick: int) -> None:
        is_disturbed = bool(self._tool.rules)
        with faults.watch(_HOLD_POINTS[pick % len(_HOLD_POINTS)], hold=True) as watch:
            run = await self._harness.start(allow_deletions=True)
            is_refreshed = await self._reach(run, watch, passes=pick % 5)
            if is_refreshed:
                with self._tool.lock:
                    self._change(WalkStep(("permission", "restrict")[pick % 2], pick))
                await self._access(pick)
        await self._complete(run)
        has_all_permissions = is_refreshed or self._tool.shows_restrictions
        if self._only_access_changed and has_all_permissions and not is_disturbed:
            await self._check_viewers()

    async def _reach(self, run: ConnectorRun, watch: faults.PointWatch, passes: int) -> bool:
        """Whether the run comes to a point once more than `passes` times; else it has ended."""
        for _ in range(passes + 1):

            async def is_there() -> bool:
                if watch.passed.is_set():
                    return True
                await self._harness.run_delayed_jobs()
                return (await self._harness.reload_run(run)).completed_at is not None

            await wait_until(is_there)
            if not watch.passed.is_set():
                return False
            if watch.count <= passes:
                watch.passed.clear()
                watch.hold.set()
                watch.hold.clear()
        return True

    async def _requeue(self, job_id: UUID | None) -> None:
        """Let the queue believe that the job's worker is gone, and wait until the job is running again."""
        async with self._harness.mill.db.transaction() as tx:
            await tx.execute(
                "update job set lease = '00000000-0000-0000-0000-000000000000', worker = gen_random_uuid()"
                " where id = %s and state = 'running'",
                [job_id],
            )

        async def is_running_again() -> bool:
            rows = await self._harness.fetch(
                "select 1 from job where id = %s and lease = '00000000-0000-0000-0000-000000000000'", job_id
            )
            return rows == []

        await wait_until(is_running_again)

    async def _wait_until_idle(self) -> None:
        async def is_idle() -> bool:
            await self._harness.run_delayed_jobs()
            return await self._harness.fetch("select 1 from job where state <> 'dead'") == []

        await wait_until(is_idle)

    # ── checks ───────────────────────────────────────────────────────────────────────────────────────────

    async def _check(self, pick: int) -> ConnectorRun:
        self._tool.rules.clear()
        run = await self._harness.sync(allow_deletions=True, force=pick % 9 == 1)
        log = await self._harness.log_text(run)
        # Jira Data Center does not say who is in a security level: its runs name what only admins see.
        assert run.status == "success" or "could not be found out" in log, log
        if not self._tool.shows_restrictions:
            await self._harness.refresh_permissions()
        await self._harness.assert_matches_tool()
        await self._check_viewers()
        self._only_access_changed = True
        return run

    async def _check_viewers(self) -> None:
        self._emails |= self._tool.known_emails()
        for email in sorted(self._emails | {STRANGER}):
            assert await self._harness.visible_ids(email) == self._tool.visible_ids(email), email
        assert await self._harness.visible_ids(None) == set(self._tool.expected_documents())

    async def _dry_run(self, pick: int) -> None:
        self._tool.rules.clear()
        await self._wait_until_idle()  # a run that failed leaves documents to be indexed
        before = await self._known_state()
        run = await self._harness.sync(dry_run=True, force=pick % 9 == 1)
        assert run.status == "success", await self._harness.log_text(run)
        assert await self._known_state() == before
        records = "select id from item where type = 'record' and status <> 'deleting'"
        ids_before = set(await self._harness.fetch(records))
        actual = await self._check(pick)
        assert run.plan is not None
        plan = {name: run.plan[name] for name in ("add", "change", "prune")}
        added = len(set(await self._harness.fetch(records)) - ids_before)
        assert plan == {
            "add": added,
            "change": actual.documents_ingested - added,
            "prune": actual.documents_pruned,
        }

    async def _known_state(self) -> list[Any]:
        """What the base has and what is known of the tool."""
        return [
            await self._harness.indexed_documents(),
            sorted(
                await self._harness.fetch(
                    "select source_id, hash, audience, seen, mark from connector_document"
                )
            ),
            sorted(await self._harness.fetch("select source_id, error_code from connector_failure")),
            sorted(
                await self._harness.fetch(
                    "select scope, kind, checkpoint::text, listing from connector_stream"
                )
            ),
        ]


def _is_any(_: FakeCall) -> bool:
    return True


def _is_not_detail(tool: FakeTool) -> Callable[[FakeCall], bool]:
    return lambda call: not tool.is_detail(call)


def same_request(fake: FakeTool, after: int = 0) -> Callable[[FakeCall], bool]:
    """Matches one request for a single document, after so many others, whenever it is sent."""
    seen: list[object] = []

    def is_same(call: FakeCall) -> bool:
        request = (call.method, call.path, dict(call.params), call.body)
        if fake.is_detail(call) and request not in seen and len(seen) <= after:
            seen.append(request)
        return len(seen) > after and request == seen[after]

    return is_same


async def take_walk(harness: ConnectorHarness, seed: object, count: int) -> None:
    """A walk of about so many steps, chosen by a seed."""
    await ConnectorWalk(harness).walk(draw_steps(random.Random(f"{harness.tool.kind} {seed}"), count))
