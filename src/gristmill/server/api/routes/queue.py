"""`/api/queue` and `/api/workers`: the work of all lanes of the organisation, its rate, and who does it."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated
from uuid import UUID

from fastapi import Query

from gristmill import catalog, jobs, stage_gate
from gristmill.catalog import BaseId
from gristmill.connectors import admin
from gristmill.db import Tx
from gristmill.identity import OrgId
from gristmill.server.api.context import CurrentCaller, CurrentContext
from gristmill.server.api.router import ApiRouter
from gristmill.server.api.routes.items import item_titles
from gristmill.server.api.schemas.common import Page
from gristmill.server.api.schemas.queue import LaneKind, LaneOut, WholeQueueOut, WorkerOut
from gristmill.settings import Settings

router = ApiRouter("/api/queue", tag="jobs")
workers = ApiRouter("/api/workers", tag="machine")

STEPS = 60
_MINUTE = timedelta(minutes=1)

_LaneOwner = tuple[LaneKind, UUID | None, str]  # kind, id, name


@router.get("")
async def get_whole_queue(
    context: CurrentContext, caller: CurrentCaller, minutes: Annotated[int, Query(ge=1, le=1440)] = 60
) -> WholeQueueOut:
    """Count the waiting, running and dead jobs of the organisation by lane, and those finished in the last `minutes`."""
    window = timedelta(minutes=minutes)
    async with context.db.connection() as tx:
        lanes = await jobs.find_lanes(tx, caller.org)
        done = await jobs.throughput(tx, caller.org, window, STEPS)
        last_minute = await jobs.throughput(tx, caller.org, _MINUTE, 1)
        paces = await jobs.pace(tx)
        owners = await _lane_owners(tx, caller.org, lanes)
        titles = await item_titles(tx, (lane.subject for lane in lanes))
    return WholeQueueOut(
        running=sum(lane.running for lane in lanes),
        waiting=sum(lane.waiting for lane in lanes),
        dead=sum(lane.dead for lane in lanes),
        step_seconds=window.total_seconds() / STEPS,
        done=[sum(step) for step in zip(*done.values(), strict=True)] or [0] * STEPS,
        lanes=[
            _lane_out(
                lane,
                owners[lane.lane],
                title=lane.subject and titles.get(lane.subject),
                done=done.get(lane.lane, ()),
                rate=sum(last_minute.get(lane.lane, ())),
                pace=paces.get(lane.lane),
                default_slots=_default_slots(context.settings),
            )
            for lane in lanes
            if lane.lane in owners
        ],
    )


def _default_slots(settings: Settings) -> int:
    """How many jobs a base without a cap of its own may run in one worker while it is alone."""
    return settings.lane_cap or stage_gate.room(0, settings.worker_slots, settings.base_share)


def _lane_out(
    lane: jobs.LaneStatus,
    owner: _LaneOwner,
    *,
    title: str | None,
    done: Sequence[int],
    rate: int,
    pace: jobs.Pace | None,
    default_slots: int,
) -> LaneOut:
    kind, owner_id, owner_name = owner
    return LaneOut.model_validate(
        {
            **vars(lane),
            "kind": kind,
            "id": owner_id,
            "name": owner_name,
            "slots": default_slots if lane.cap is None else lane.cap,
            "working": title,
            "rate_per_minute": rate,
            "eta_seconds": jobs.remaining_seconds(lane.waiting + lane.running, pace),
            "done": done or [0] * STEPS,
        }
    )


async def _lane_owners(tx: Tx, org: OrgId, lanes: list[jobs.LaneStatus]) -> dict[str, _LaneOwner]:
    """What each lane belongs to. A lane whose base or connector no longer exists is left out."""
    base_ids = [BaseId(base_id) for lane in lanes if (base_id := _parse_uuid(lane.lane))]
    bases = await catalog.find_bases(tx, base_ids)
    connectors = await admin.find_connectors(tx, org, limit=jobs.MAX_LANES)
    owners: dict[str, _LaneOwner] = {base.lane: ("base", base.id, base.name) for base in bases.values()}
    owners |= {connector.lane: ("connector", connector.id, connector.name) for connector in connectors}
    for lane in lanes:
        prefix, _, owner_id = lane.lane.partition(":")
        if prefix == "webhook":
            owners[lane.lane] = ("webhook", _parse_uuid(owner_id), "webhook")
        elif _parse_uuid(lane.lane) is None and prefix != "connector":
            owners[lane.lane] = ("other", None, lane.lane)
    return owners


def _parse_uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


@workers.get("")
async def list_workers(context: CurrentContext) -> Page[WorkerOut]:
    """List every worker of this database, oldest first."""
    async with context.db.connection() as tx:
        known_workers = await jobs.find_workers(tx)
    items = [
        WorkerOut.model_validate(
            {
                "host": "",
                "pid": 0,
                "version": "",
                **worker.info,
                **vars(worker),
                "beat_at": worker.heartbeat_at,
                "slots": context.settings.worker_slots,
            }
        )
        for worker in known_workers
    ]
    return Page(items=items, next_cursor=None)
