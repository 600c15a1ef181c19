"""`/metrics`: what the machine does, for Prometheus. For the operator alone: it counts what all organisations do.

Requests and searches are counted in this process. The queue and the lag of events are read from the database when they are
asked for. Lanes are told apart for the local organisation only; those of the others are one, `other`.
"""

from typing import Any

from fastapi import APIRouter
from fastapi.responses import Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Gauge, generate_latest

from gristmill import events, jobs
from gristmill.doors.api.context import InContext
from gristmill.organisation import LOCAL

router = APIRouter(tags=["health"])


@router.get("/metrics", response_class=Response)
async def metrics(context: InContext) -> Response:
    """What the machine does, in the text form of Prometheus."""
    fresh = CollectorRegistry()
    queued = Gauge("gristmill_jobs", "Jobs that live.", ["lane", "kind", "state"], registry=fresh)
    lag = Gauge(
        "gristmill_event_lag_seconds", "Age of the oldest event that has no place yet.", registry=fresh
    )
    late = Gauge("gristmill_webhooks_behind", "Active webhooks with something to deliver.", registry=fresh)
    streams = Gauge("gristmill_streams", "Clients that follow the stream.", registry=fresh)
    async with context.db.connection() as tx:
        for row in await jobs.counts_by_lane(tx, LOCAL):
            queued.labels(row.lane, row.kind, row.state).inc(row.count)
        behind = await events.backlog(tx)
    lag.set(behind.lag_seconds)
    late.set(behind.webhooks)
    streams.set(context.broadcaster.followers)
    told: Any = generate_latest(context.meters.registry) + generate_latest(fresh)
    return Response(told, media_type=CONTENT_TYPE_LATEST)
