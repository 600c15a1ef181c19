"""`/metrics`: what the machine does, for Prometheus. For the operator alone: it counts what all organisations do.

Requests, searches, stages, batches and waits are counted in this process. The queue and the lag of events are read from the
database when they are asked for, broken promises at most every five minutes. Lanes are told apart for the local organisation only; those of the others are one, `other`.
"""

from typing import Any

from fastapi import APIRouter
from fastapi.responses import Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Gauge, generate_latest

from gristmill import events, jobs
from gristmill.operations import invariants
from gristmill.organisation import LOCAL_ORG
from gristmill.server.api.context import CurrentContext
from gristmill.telemetry import pipeline_metrics

router = APIRouter(tags=["health"])


@router.get("/metrics", response_class=Response)
async def metrics(context: CurrentContext) -> Response:
    """What the machine does, in the text form of Prometheus."""
    live_registry = CollectorRegistry()
    jobs_gauge = Gauge("gristmill_jobs", "Jobs that live.", ["lane", "kind", "state"], registry=live_registry)
    lag_gauge = Gauge(
        "gristmill_event_lag_seconds",
        "Age of the oldest event that has no place yet.",
        registry=live_registry,
    )
    webhooks_gauge = Gauge(
        "gristmill_webhooks_behind", "Active webhooks with something to deliver.", registry=live_registry
    )
    streams_gauge = Gauge("gristmill_streams", "Clients that follow the stream.", registry=live_registry)
    violations_gauge = Gauge(
        "gristmill_violations",
        "Things that break a promise, as last seen.",
        ["promise"],
        registry=live_registry,
    )
    async with context.db.connection() as tx:
        for row in await jobs.counts_by_lane(tx, LOCAL_ORG):
            jobs_gauge.labels(row.lane, row.kind, row.state).inc(row.count)
        backlog = await events.backlog(tx)
        violations = context.metrics.recent_violations()
        if violations is None:
            violations = context.metrics.record_violations(
                violation.promise for violation in await invariants.find_violations(tx)
            )
    for promise in invariants.PROMISES:
        violations_gauge.labels(promise).set(violations.get(promise, 0))
    lag_gauge.set(backlog.lag_seconds)
    webhooks_gauge.set(backlog.webhooks)
    streams_gauge.set(context.broadcaster.subscriber_count)
    registries = (context.metrics.registry, pipeline_metrics.REGISTRY, live_registry)
    text: Any = b"".join(generate_latest(registry) for registry in registries)
    return Response(text, media_type=CONTENT_TYPE_LATEST)
