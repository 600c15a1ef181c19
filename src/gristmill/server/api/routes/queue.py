"""`/api/queue`: all lanes of the organisation at once, how fast they go, and what they did lately."""

from datetime import timedelta
from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Query

from gristmill import catalog, jobs
from gristmill.catalog import BaseId, ItemId
from gristmill.connectors import admin
from gristmill.db import Tx
from gristmill.server.api.caller import Caller
from gristmill.server.api.context import CurrentCaller, CurrentContext
from gristmill.server.api.schemas.common import ApiModel

router = APIRouter(prefix="/queue", tags=["jobs"])

STEPS = 60
_MINUTE = timedelta(minutes=1)


class LaneOut(ApiModel):
    """A lane: a base, a connector or a webhook. `working` is the title of what has been worked on longest; `done` counts
    jobs by steps of the asked time; `etaSeconds` is null while nothing tells how fast it goes."""

    lane: str
    kind: Literal["base", "connector", "webhook", "other"]
    id: UUID | None
    name: str
    running: int
    slots: int
    waiting: int
    dead: int
    paused: bool
    working: str | None
    rate_per_minute: float
    eta_seconds: int | None
    done: list[int]


class WholeQueueOut(ApiModel):
    """All of it; `done` counts jobs by steps of `stepSeconds`, the last of which ends now."""

    running: int
    waiting: int
    dead: int
    step_seconds: float
    done: list[int]
    lanes: list[LaneOut]


@router.get("")
async def get_whole_queue(
    context: CurrentContext, caller: CurrentCaller, minutes: Annotated[int, Query(ge=1, le=1440)] = 60
) -> WholeQueueOut:
    """What waits, runs and is dead in the organisation, lane by lane, and what was done in the last `minutes`."""
    window = timedelta(minutes=minutes)
    async with context.db.connection() as tx:
        lanes = await jobs.find_lanes(tx, caller.org)
        done = await jobs.throughput(tx, caller.org, window, STEPS)
        last_minute = await jobs.throughput(tx, caller.org, _MINUTE, 1)
        owners = await _lane_owners(tx, caller, lanes)
        titles = await _titles(tx, lanes)
    shown_lanes = [
        _lane_out(
            lane,
            owners[lane.lane],
            titles,
            done.get(lane.lane, ()),
            sum(last_minute.get(lane.lane, ())),
            context,
        )
        for lane in lanes
        if lane.lane in owners
    ]
    return WholeQueueOut(
        running=sum(lane.running for lane in lanes),
        waiting=sum(lane.waiting for lane in lanes),
        dead=sum(lane.dead for lane in lanes),
        step_seconds=window.total_seconds() / STEPS,
        done=[sum(step) for step in zip(*done.values(), strict=True)] or [0] * STEPS,
        lanes=shown_lanes,
    )


_LaneOwner = tuple[Literal["base", "connector", "webhook", "other"], UUID | None, str]


def _lane_out(
    lane: jobs.LaneStatus,
    owner: _LaneOwner,
    titles: dict[UUID, str],
    done: object,
    rate: int,
    context: CurrentContext,
) -> LaneOut:
    kind, id_, owner_name = owner
    remaining = lane.waiting + lane.running
    return LaneOut.model_validate(
        {
            **vars(lane),
            "kind": kind,
            "id": id_,
            "name": owner_name,
            "slots": context.settings.lane_cap if lane.cap is None else lane.cap,
            "working": None if lane.subject is None else titles.get(lane.subject),
            "rate_per_minute": rate,
            "eta_seconds": 0 if remaining == 0 else round(60 * remaining / rate) if rate else None,
            "done": done or [0] * STEPS,
        }
    )


async def _lane_owners(tx: Tx, caller: Caller, lanes: list[jobs.LaneStatus]) -> dict[str, _LaneOwner]:
    """What lanes stand for; one whose base or connector is gone is left out."""
    bases = await catalog.find_bases(tx, [BaseId(id_) for lane in lanes if (id_ := _parse_uuid(lane.lane))])
    connectors = await admin.find_connectors(tx, caller.org, limit=jobs.MOST_LANES)
    owners: dict[str, _LaneOwner] = {base.lane: ("base", base.id, base.name) for base in bases.values()}
    owners |= {connector.lane: ("connector", connector.id, connector.name) for connector in connectors}
    for lane in lanes:
        prefix, _, id_ = lane.lane.partition(":")
        if prefix == "webhook":
            owners[lane.lane] = ("webhook", _parse_uuid(id_), "webhook")
        elif _parse_uuid(lane.lane) is None and prefix != "connector":
            owners[lane.lane] = ("other", None, lane.lane)
    return owners


async def _titles(tx: Tx, lanes: list[jobs.LaneStatus]) -> dict[UUID, str]:
    subjects = [ItemId(lane.subject) for lane in lanes if lane.subject is not None]
    return {item.id: item.title for item in await catalog.find_items(tx, subjects)} if subjects else {}


def _parse_uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
