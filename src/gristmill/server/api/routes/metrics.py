"""`/metrics` in the Prometheus text format. Only the operator may read it: it counts the work of all organisations.

    counted in each process                requests, searches, streams, pipeline stages, batches, waits
    read from the database at each scrape  jobs by lane, event lag, webhooks behind, event streams, index tasks
    checked at each scrape                 what the process depends on, as `/readyz` does
    read at most every five minutes        invariant violations (`telemetry/server_metrics.py`)

What several processes of one `gristmill serve` counted is shown together, with the label `process`. Lanes of the local organisation have their own label; the lanes of all other organisations share the label `other`.
"""

from typing import Any

from fastapi.responses import Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Gauge, generate_latest

from gristmill import events, jobs
from gristmill.identity import LOCAL_ORG
from gristmill.integrity import invariants
from gristmill.search.index import tasks as index_tasks
from gristmill.server.api.context import CurrentContext
from gristmill.server.api.router import ApiRouter
from gristmill.telemetry import pipeline_metrics, shared_metrics

router = ApiRouter(tag="health")


@router.get("/metrics", response_class=Response)
async def metrics(context: CurrentContext) -> Response:
    """Export metrics for Prometheus."""
    live_registry = CollectorRegistry()
    jobs_gauge = Gauge(
        "gristmill_jobs", "Queued, running and dead jobs.", ["lane", "kind", "state"], registry=live_registry
    )
    lag_gauge = Gauge(
        "gristmill_event_lag_seconds",
        "Age of the oldest event without a position in the event order.",
        registry=live_registry,
    )
    webhooks_gauge = Gauge(
        "gristmill_webhooks_behind", "Active webhooks with undelivered events.", registry=live_registry
    )
    violations_gauge = Gauge(
        "gristmill_violations",
        "Subjects that break an invariant, at the last check.",
        ["promise"],
        registry=live_registry,
    )
    tasks_gauge = Gauge(
        "gristmill_index_tasks",
        "Changes not yet applied to the search engine.",
        ["kind"],
        registry=live_registry,
    )
    index_lag_gauge = Gauge(
        "gristmill_index_lag_seconds",
        "Age of the oldest change not yet applied to the search engine.",
        registry=live_registry,
    )
    ready_gauge = Gauge(
        "gristmill_ready",
        "Whether a check of /readyz passed: 1 or 0.",
        ["check"],
        registry=live_registry,
    )
    for check in await context.readiness.run_checks():
        ready_gauge.labels(check.name).set(check.ok)
    async with context.db.connection() as tx:
        counts = await index_tasks.counts(tx)
        for count in counts:
            tasks_gauge.labels(count.kind).set(count.tasks)
        index_lag_gauge.set(max((count.age for count in counts), default=0.0))
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
    counted_registry = shared_metrics.merge((context.metrics.registry, pipeline_metrics.REGISTRY))
    text: Any = b"".join(generate_latest(registry) for registry in (counted_registry, live_registry))
    return Response(text, media_type=CONTENT_TYPE_LATEST)
