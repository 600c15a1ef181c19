"""The kinds of embedders that can be stored: each is one line here."""

from collections.abc import Mapping
from typing import Literal, Protocol

from gristmill.embedding.embedder import Embedder
from gristmill.embedding.governor import Governor
from gristmill.embedding.openai import OpenAIEmbedder
from gristmill.settings import EmbedderSettings


class EndpointEmbedder(Embedder, Protocol):
    """An embedder behind an address, which can be asked how long its vectors are."""

    async def measure_dimensions(self) -> int:
        """Ask the endpoint for one vector, without retries, and return its length."""
        ...


class EmbedderKind(Protocol):
    """Creates embedders of one kind; it sends nothing."""

    def __call__(
        self, name: str, settings: EmbedderSettings, governor: Governor | None = None, *, allow_private: bool
    ) -> EndpointEmbedder:
        """The embedder that `settings` describe."""
        ...


DEFAULT_KIND: Literal["openai"] = "openai"
KINDS: Mapping[str, EmbedderKind] = {DEFAULT_KIND: OpenAIEmbedder}
