"""The embedders of this process, each made once, by the names that bases use."""

from collections.abc import Mapping
from pathlib import Path

from gristmill.embedding import local
from gristmill.embedding.embedder import Embedder
from gristmill.embedding.local import LocalEmbedder
from gristmill.embedding.openai import OpenAIEmbedder
from gristmill.errors import Invalid, SetupError
from gristmill.settings import Settings


class Embedders:
    """The built-in embedder, those of the settings, and `extra` ones, which win over both."""

    def __init__(
        self, settings: Settings, cache_dir: Path, extra: Mapping[str, Embedder] | None = None
    ) -> None:
        if local.NAME in settings.embedders:
            raise SetupError(
                f"embedders.{local.NAME} is the name of the built-in embedder; choose another.",
                code="bad_setting",
            )
        self._known: dict[str, Embedder] = {
            local.NAME: LocalEmbedder(cache_dir, settings.embed_threads),
            **{name: OpenAIEmbedder(name, asked) for name, asked in settings.embedders.items()},
            **(extra or {}),
        }
        if settings.embedder not in self._known:
            raise SetupError(
                f"embedder: there is no embedder {settings.embedder}; known are {self._listed()}.",
                code="bad_setting",
            )
        self._default = settings.embedder

    @property
    def default(self) -> Embedder:
        """For bases that name none."""
        return self._known[self._default]

    def names(self) -> list[str]:
        """All names, sorted."""
        return sorted(self._known)

    def get(self, name: str) -> Embedder:
        """The embedder of this name, the same one every time."""
        try:
            return self._known[name]
        except KeyError:
            raise Invalid(
                f"There is no embedder {name}; known are {self._listed()}.", code="unknown_embedder"
            ) from None

    async def close(self) -> None:
        """Close them all."""
        for embedder in self._known.values():
            await embedder.close()

    def _listed(self) -> str:
        return ", ".join(self.names())
