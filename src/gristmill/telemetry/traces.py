"""OpenTelemetry traces of requests, jobs, ingestion stages and outgoing calls. Requires the extra `gristmill[otel]`.

    span("job index_document", {…})        a span around the block
    record_past_span("stage read", 0.3)    a span of this duration that ends now

Until `start` is called, OpenTelemetry is not imported, and `span` costs one comparison. Tracing never fails the work: the
exporter drops spans that it can't send. Attributes are few, and never contain the path or query of a URL, which may hold
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
    """Send traces to an OTLP/HTTP endpoint from now on; returns a function that sends the rest and stops."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise SetupError(
            "The setting otlp_endpoint requires OpenTelemetry, which is not installed. Install gristmill[otel].",
            code="otel_missing",
        ) from error
    return start_with_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint)), version=version)


def start_with_processor(processor: Any, *, version: str = "") -> Callable[[], None]:
    """The same with the given span processor."""
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
    """Whether traces are sent."""
    return _tracer is not None


def span(
    name: str,
    attributes: Attributes = _NO_ATTRIBUTES,
    *,
    headers: Mapping[str, str] | None = None,
    kind: str = "internal",
) -> AbstractContextManager[SetAttributes]:
    """A span around the block. It yields a function that sets attributes that become known later; the attribute `name`
    renames the span. With the `headers` of a request, the span continues the sender's trace."""
    return _NO_SPAN if _tracer is None else _start_span(_tracer, name, headers, kind, attributes)


def record_past_span(name: str, seconds: float, attributes: Attributes = _NO_ATTRIBUTES) -> None:
    """Record a span of this duration that ends now."""
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
