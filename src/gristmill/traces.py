"""Traces by OpenTelemetry: requests, jobs, stages of documents, calls of providers. Only with the extra `gristmill[otel]`.

    span("job index_document", {…})        what happens in the block
    past("stage read", 0.3)                what took so long, and ended just now or began when the span around it did

Until `begin` is called nothing of OpenTelemetry is imported here, and `span` is one comparison. Tracing never fails the work: what
can't be sent is dropped by the exporter. Attributes are ours and few; no address is told with its path or query, which may hold
secrets.
"""

import time
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from gristmill.errors import SetupError

Facts = Mapping[str, str | int | float | bool]
Tell = Callable[[Facts], None]


def _untold(_facts: Facts) -> None:
    pass


_NONE: Facts = {}
_NOTHING: AbstractContextManager[Tell] = nullcontext(_untold)
_tracer: Any = None


def begin(endpoint: str, *, version: str) -> Callable[[], None]:
    """Send traces to an OTLP/HTTP endpoint from now on; the function that sends what is left, and ends it."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise SetupError(
            "otlp_endpoint is set, and OpenTelemetry is not installed. Install gristmill[otel].",
            code="otel_missing",
        ) from error
    return begin_with(BatchSpanProcessor(OTLPSpanExporter(endpoint)), version=version)


def begin_with(processor: Any, *, version: str = "") -> Callable[[], None]:
    """The same, with a span processor of the caller's."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider

    global _tracer
    facts = {"service.name": "gristmill", "service.version": version}
    provider = TracerProvider(resource=Resource.create(facts))
    provider.add_span_processor(processor)
    _tracer = provider.get_tracer("gristmill")

    def end() -> None:
        global _tracer
        _tracer = None
        provider.shutdown()

    return end


def on() -> bool:
    """Whether anybody wants traces."""
    return _tracer is not None


def span(
    name: str, facts: Facts = _NONE, *, headers: Mapping[str, str] | None = None, kind: str = "internal"
) -> AbstractContextManager[Tell]:
    """What happens in the block; what it gives takes facts that are known later, a better `name` among them. With the `headers`
    of a request it goes on with the trace of who sent it."""
    return _NOTHING if _tracer is None else _traced(_tracer, name, headers, kind, facts)


def past(name: str, seconds: float, facts: Facts = _NONE) -> None:
    """Something that took so long in all, and is over; it is drawn as if it had ended now."""
    if _tracer is not None:
        now = time.time_ns()
        _tracer.start_span(name, attributes=facts, start_time=now - int(seconds * 1e9)).end(now)


@contextmanager
def _traced(
    tracer: Any, name: str, headers: Mapping[str, str] | None, kind: str, facts: Facts
) -> Generator[Tell]:
    from opentelemetry.propagate import extract
    from opentelemetry.trace import SpanKind

    above = None if headers is None else extract(dict(headers))
    opened = tracer.start_as_current_span(
        name, context=above, kind=SpanKind[kind.upper()], attributes=facts, record_exception=False
    )
    with opened as one:

        def tell(known: Facts) -> None:
            if "name" in known:
                one.update_name(str(known["name"]))
            one.set_attributes({fact: value for fact, value in known.items() if fact != "name"})

        yield tell
