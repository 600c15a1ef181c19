"""The registry: the embedders of this process by name, each created once."""

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

import httpx

from gristmill.db import Database
from gristmill.embedding.embedder import Embedder
from gristmill.embedding.governor import Governor, provider_key
from gristmill.embedding.local import LocalEmbedder
from gristmill.embedding.local_models import LOCAL_MODELS
from gristmill.embedding.openai import OpenAIEmbedder
from gristmill.embedding.pacing import ProviderLimits
from gristmill.errors import Invalid, SetupError
from gristmill.settings import EmbedderSettings, Settings


class Embedders:
    """The built-in embedders, those of the settings, and `extra` ones, which override both.

    With `db`, all workers on that database share the rate limits of the endpoints.
    """

    def __init__(
        self,
        settings: Settings,
        cache_dir: Path,
        extra: Mapping[str, Embedder] | None = None,
        db: Database | None = None,
    ) -> None:
        for model in LOCAL_MODELS:
            if model.name in settings.embedders:
                raise SetupError(
                    f"embedders.{model.name}: this is the name of a built-in embedder. Choose another name.",
                    code="bad_setting",
                )
        self._governors = _make_governors(settings.embedders.values(), db) if db else {}
        self._embedders: dict[str, Embedder] = {
            **{
                model.name: LocalEmbedder(cache_dir, settings.embed_threads, model=model)
                for model in LOCAL_MODELS
            },
            **{
                name: OpenAIEmbedder(
                    name, embedder_settings, self._governors.get(_provider_of(embedder_settings))
                )
                for name, embedder_settings in settings.embedders.items()
            },
            **(extra or {}),
        }
        if settings.embedder not in self._embedders:
            raise SetupError(
                f"embedder: there is no embedder {settings.embedder}. Available: {self._name_list()}.",
                code="bad_setting",
            )
        self._default = settings.embedder

    @property
    def default(self) -> Embedder:
        """The embedder of bases that don't name one."""
        return self._embedders[self._default]

    def names(self) -> list[str]:
        """All names, sorted."""
        return sorted(self._embedders)

    def get(self, name: str) -> Embedder:
        """The embedder of this name, the same one every time."""
        try:
            return self._embedders[name]
        except KeyError:
            raise Invalid(
                f"There is no embedder {name}. Available: {self._name_list()}.", code="unknown_embedder"
            ) from None

    def for_languages(self, languages: Collection[str]) -> Embedder:
        """The embedder for texts in these languages: the default one, unless a built-in one knows more of them."""
        local = [self._embedders[model.name] for model in LOCAL_MODELS]
        return max(
            (self.default, *local),
            key=lambda embedder: (_known(embedder, languages), embedder is self.default),
        )

    async def close(self) -> None:
        """Close all embedders and governors."""
        for embedder in self._embedders.values():
            await embedder.close()
        for governor in self._governors.values():
            await governor.close()

    def _name_list(self) -> str:
        return ", ".join(self.names())


def _known(embedder: Embedder, languages: Collection[str]) -> int:
    """How many of the languages an embedder knows; an endpoint doesn't say, and was chosen by someone who knows."""
    strengths = embedder.strengths
    return len(languages) if strengths is None else sum(language in strengths for language in languages)


def _provider_of(settings: EmbedderSettings) -> str:
    return provider_key(
        settings.url.rstrip("/"), settings.api_key.get_secret_value() if settings.api_key else None
    )


def _make_governors(embedders: Iterable[EmbedderSettings], db: Database) -> dict[str, Governor]:
    """One governor per endpoint and API key. Embedders that share one get the lowest of their limits."""
    shared: dict[str, list[EmbedderSettings]] = {}
    for settings in embedders:
        shared.setdefault(_provider_of(settings), []).append(settings)
    return {
        key: Governor(
            db,
            key,
            ProviderLimits(
                min((each.requests_per_minute for each in sharing if each.requests_per_minute), default=None),
                min((each.tokens_per_minute for each in sharing if each.tokens_per_minute), default=None),
                min(each.concurrency for each in sharing),
            ),
            f"The embedder at {_host(sharing[0])}",
        )
        for key, sharing in shared.items()
    }


def _host(settings: EmbedderSettings) -> str:
    try:
        return httpx.URL(settings.url).host
    except httpx.InvalidURL:
        return "an invalid address"  # creating the embedder raises the error for it
