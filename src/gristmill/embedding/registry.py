"""The embedders of this process, each made once, by the names that bases use."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import httpx

from gristmill.db import Database
from gristmill.embedding import local
from gristmill.embedding.embedder import Embedder
from gristmill.embedding.governor import Governor, provider_key
from gristmill.embedding.local import LocalEmbedder
from gristmill.embedding.openai import OpenAIEmbedder
from gristmill.embedding.pacing import Limits
from gristmill.errors import Invalid, SetupError
from gristmill.settings import EmbedderSettings, Settings


class Embedders:
    """The built-in embedder, those of the settings, and `extra` ones, which win over both.

    With `db`, requests to endpoints are paced together with those of all other workers on that database.
    """

    def __init__(
        self,
        settings: Settings,
        cache_dir: Path,
        extra: Mapping[str, Embedder] | None = None,
        db: Database | None = None,
    ) -> None:
        if local.NAME in settings.embedders:
            raise SetupError(
                f"embedders.{local.NAME} is the name of the built-in embedder; choose another.",
                code="bad_setting",
            )
        self._governors = _governors(settings.embedders.values(), db) if db else {}
        self._known: dict[str, Embedder] = {
            local.NAME: LocalEmbedder(cache_dir, settings.embed_threads),
            **{
                name: OpenAIEmbedder(name, asked, self._governors.get(_provider(asked)))
                for name, asked in settings.embedders.items()
            },
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
        for governor in self._governors.values():
            await governor.close()

    def _listed(self) -> str:
        return ", ".join(self.names())


def _provider(asked: EmbedderSettings) -> str:
    return provider_key(asked.url.rstrip("/"), asked.api_key.get_secret_value() if asked.api_key else None)


def _governors(embedders: Iterable[EmbedderSettings], db: Database) -> dict[str, Governor]:
    """One for each endpoint and key. Where several embedders share one, the least of their limits holds."""
    shared: dict[str, list[EmbedderSettings]] = {}
    for asked in embedders:
        shared.setdefault(_provider(asked), []).append(asked)
    return {
        key: Governor(
            db,
            key,
            Limits(
                min((one.requests_per_minute for one in those if one.requests_per_minute), default=None),
                min((one.tokens_per_minute for one in those if one.tokens_per_minute), default=None),
                min(one.concurrency for one in those),
            ),
            f"The embedder at {_host(those[0])}",
        )
        for key, those in shared.items()
    }


def _host(asked: EmbedderSettings) -> str:
    try:
        return httpx.URL(asked.url).host
    except httpx.InvalidURL:
        return "an address that is none"  # refused by whoever makes the embedder
