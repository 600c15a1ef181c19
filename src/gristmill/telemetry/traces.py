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

Attributes = Mapping[str, str | int | float | bool]
SetAttributes = Callable[[Attributes], None]


def _ignore_attributes(_facts: Attributes) -> None:
    pass


_NO_ATTRIBUTES: Attributes = {}
_NO_SPAN: AbstractContextManager[SetAttributes] = nullcontext(_ignore_attributes)
_tracer: Any = None


def start(endpoint: str, *, version: str) -> Callable[[], None]:
    """Send traces to an OTLP/HTTP endpoint from now on; the function that sends what is left, and ends it."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise SetupError(
            "otlp_endpoint is set, and OpenTelemetry is not installed. Install gristmill[otel].",
            code="otel_missing",
        ) from error
    return start_with_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint)), version=version)


def start_with_processor(processor: Any, *, version: str = "") -> Callable[[], None]:
    """The same, with a span processor of the caller's."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider

    global _tracer
    attributes = {"service.name": "gristmill", "service.version": version}
    provider = TracerProvider(resource=Resource.create(attributes))
    provider.add_span_processor(processor)
    _tracer = provider.get_tracer("gristmill")

    def stop() -> None:
        global _tracer
        _tracer = None
        provider.shutdown()

    return stop


def is_enabled() -> bool:
    """Whether anybody wants traces."""
    return _tracer is not None


def span(
    name: str,
    attributes: Attributes = _NO_ATTRIBUTES,
    *,
    headers: Mapping[str, str] | None = None,
    kind: str = "internal",
) -> AbstractContextManager[SetAttributes]:
    """What happens in the block; what it gives takes facts that are known later, a better `name` among them. With the `headers`
    of a request it goes on with the trace of who sent it."""
    return _NO_SPAN if _tracer is None else _start_span(_tracer, name, headers, kind, attributes)


def record_past_span(name: str, seconds: float, attributes: Attributes = _NO_ATTRIBUTES) -> None:
    """Something that took so long in all, and is over; it is drawn as if it had ended now."""
    if _tracer is not None:
        now = time.time_ns()
        _tracer.start_span(name, attributes=attributes, start_time=now - int(seconds * 1e9)).end(now)


@contextmanager
def _start_span(
    tracer: Any, name: str, headers: Mapping[str, str] | None, kind: str, attributes: Attributes
) -> Generator[SetAttributes]:
    from opentelemetry.propagate import extract
    from opentelemetry.trace import SpanKind

    parent = None if headers is None else extract(dict(headers))
    span_context = tracer.start_as_current_span(
        name, context=parent, kind=SpanKind[kind.upper()], attributes=attributes, record_exception=False
    )
    with span_context as current:

        def set_attributes(attributes_to_set: Attributes) -> None:
            if "name" in attributes_to_set:
                current.update_name(str(attributes_to_set["name"]))
            current.set_attributes({key: value for key, value in attributes_to_set.items() if key != "name"})

        yield set_attributes
