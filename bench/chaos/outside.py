"""What Gristmill reads from and pays, in the process of the benchmark: nothing of it is ever killed."""

import threading
from collections import Counter
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from tests.connectors.fakes.github import FakeGitHub
from tests.connectors.fakes.jira import FakeJira
from tests.connectors.fakes.tool import FakeTool, serve_fake
from tests.embedding import endpoint
from tests.embedding.endpoint import CannedResponse, EmbeddingRequest
from tests.sources import site
from tests.sources.site import Site

_PROBE_TEXT = "ok"  # what the embed stage sends to learn whether the embedder or a text is at fault


@dataclass
class TextCounter:
    """How often each text was sent to the embedder."""

    counts: Counter[str] = field(default_factory=Counter[str])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def respond(self, request: EmbeddingRequest) -> CannedResponse:
        """Count the texts of a request, and answer it."""
        with self._lock:
            self.counts.update(text for text in request.body["input"] if text != _PROBE_TEXT)
        return endpoint.hashed_vectors(request)

    @property
    def total(self) -> int:
        """The number of texts that were embedded."""
        return sum(self.counts.values())

    @property
    def repeated(self) -> int:
        """How many of them were embedded before."""
        return self.total - len(self.counts)


@dataclass(frozen=True)
class Outside:
    """The servers that Gristmill talks to."""

    embedder_url: str
    texts: TextCounter
    site: Site
    tools: list[FakeTool]


@contextmanager
def serve_outside() -> Generator[Outside]:
    """Serve everything until the benchmark is over."""
    with ExitStack() as stack:
        embedder = stack.enter_context(endpoint.serve())
        texts = TextCounter()
        embedder.respond = texts.respond
        pages = stack.enter_context(site.serve())
        tools: list[FakeTool] = [stack.enter_context(serve_fake(fake)) for fake in (FakeGitHub(), FakeJira())]
        yield Outside(embedder.url, texts, pages, tools)
