"""`/metrics`: what the machine does, for Prometheus. For the operator alone: it counts what all organisations do.

Requests, searches, stages, batches and waits are counted in this process. The queue and the lag of events are read from the
database when they are asked for, broken promises at most every five minutes. Lanes are told apart for the local organisation only; those of the others are one, `other`.
"""

from typing import Any

from fastapi import APIRouter
from fastapi.responses import Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Gauge, generate_latest

from gristmill import events, jobs, measures
from gristmill.doors.api.context import InContext
from gristmill.operations import health
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
    broken = Gauge(
        "gristmill_violations", "Things that break a promise, as last seen.", ["promise"], registry=fresh
    )
    async with context.db.connection() as tx:
        for row in await jobs.counts_by_lane(tx, LOCAL):
            queued.labels(row.lane, row.kind, row.state).inc(row.count)
        behind = await events.backlog(tx)
        found = context.meters.broken()
        if found is None:
            found = context.meters.saw_broken(one.promise for one in await health.violations(tx))
    for promise in health.PROMISES:
        broken.labels(promise).set(found.get(promise, 0))
    lag.set(behind.lag_seconds)
    late.set(behind.webhooks)
    streams.set(context.broadcaster.followers)
    counted = (context.meters.registry, measures.REGISTRY, fresh)
    told: Any = b"".join(generate_latest(registry) for registry in counted)
    return Response(told, media_type=CONTENT_TYPE_LATEST)
