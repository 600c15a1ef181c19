"""The registry: every embedder by name. The built-in ones, those of the settings, and those that organisations stored.

    origin      where it comes from             who can use it
    builtin     a model of an installed wheel   everyone
    settings    the operator's settings         everyone
    stored      a row of the database           the organisation that made it (stored.py)

Built-in embedders and those of the settings are created once, and their names come first: a stored one of the same name is
hidden. That can happen only when the settings get the name later, so it is logged at the start.
"""

import logging
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Literal

from gristmill.db import Database, Tx
from gristmill.embedding import embedder_store
from gristmill.embedding.embedder import Embedder
from gristmill.embedding.governor import Governor, lowest_limits, plaintext_key, provider_host, provider_key
from gristmill.embedding.gpu.client import GpuClient, has_torch
from gristmill.embedding.local import LocalEmbedder
from gristmill.embedding.local_models import LOCAL_MODELS
from gristmill.embedding.openai import OpenAIEmbedder
from gristmill.embedding.stored import StoredEmbedder, StoredEmbedders
from gristmill.errors import Invalid, SetupError
from gristmill.identity import OrgId
from gristmill.settings import EmbedderSettings, Settings
from gristmill.vault import Vault

Origin = Literal["builtin", "settings", "stored"]

log = logging.getLogger(__name__)


class Embedders:
    """The built-in embedders, those of the settings, and `extra` ones, which override both; with `db` and `vault`, also the
    stored ones.

    With `db`, all workers on that database share the rate limits of the endpoints.
    """

    def __init__(
        self,
        settings: Settings,
        cache_dir: Path,
        extra: Mapping[str, Embedder] | None = None,
        db: Database | None = None,
        vault: Vault | None = None,
    ) -> None:
        for model in LOCAL_MODELS:
            if model.name in settings.embedders:
                raise SetupError(
                    f"embedders.{model.name}: this is the name of a built-in embedder. Choose another name.",
                    code="bad_setting",
                )
        self._settings = settings.embedders
        self._gpu = _gpu_client(settings, cache_dir)
        self._governors = _make_governors(settings.embedders.values(), db) if db else {}
        self._embedders: dict[str, Embedder] = {
            **{
                model.name: LocalEmbedder(
                    cache_dir,
                    settings.embed_threads,
                    model=model,
                    gpu=self._gpu,
                    gpu_required=settings.embed_device == "cuda",
                )
                for model in LOCAL_MODELS
            },
            **{
                name: self._create(name, embedder_settings)
                for name, embedder_settings in settings.embedders.items()
            },
            **(extra or {}),
        }
        self._stored = (
            StoredEmbedders(db, vault, allow_private=settings.allow_private_addresses)
            if db is not None and vault is not None
            else None
        )
        if settings.embedder not in self._embedders:
            raise SetupError(
                f"embedder: there is no embedder {settings.embedder}. Available: {', '.join(self.names())}.",
                code="bad_setting",
            )
        self._default = settings.embedder

    @property
    def default(self) -> Embedder:
        """The embedder of bases that don't name one, of organisations that have not chosen one."""
        return self._embedders[self._default]

    def names(self) -> list[str]:
        """The names of the built-in embedders and those of the settings, sorted."""
        return sorted(self._embedders)

    def get(self, name: str) -> Embedder:
        """The built-in embedder of this name, or that of the settings; the same one every time."""
        if name not in self._embedders:
            raise _unknown(name, self.names())
        return self._embedders[name]

    async def find(self, tx: Tx, name: str, org: OrgId) -> Embedder:
        """The embedder that a base of `org` means by this name; Invalid if there is none."""
        if name in self._embedders:
            return self._embedders[name]
        stored = await self.find_stored(tx, org)
        if name not in stored:
            raise _unknown(name, sorted({*self._embedders, *stored}))
        return stored[name]

    async def find_all(self, tx: Tx, org: OrgId) -> list[Embedder]:
        """Every embedder that `org` can use, by name."""
        usable = {**await self.find_stored(tx, org), **self._embedders}
        return [usable[name] for name in sorted(usable)]

    async def find_stored(self, tx: Tx, org: OrgId) -> Mapping[str, StoredEmbedder]:
        """The embedders that `org` stored, by name; also one that the settings hide."""
        return {} if self._stored is None else await self._stored.find_all(tx, org)

    def origin_of(self, embedder: Embedder) -> Origin:
        """Where an embedder comes from."""
        if isinstance(embedder, StoredEmbedder):
            return "stored"
        return "settings" if embedder.name in self._settings else "builtin"

    def settings_of(self, embedder: Embedder) -> EmbedderSettings | None:
        """The settings of an embedder that is configured there."""
        return self._settings.get(embedder.name) if self.origin_of(embedder) == "settings" else None

    def price_of(self, embedder: Embedder) -> float | None:
        """What a million tokens cost with an embedder; None if it is not known."""
        if isinstance(embedder, StoredEmbedder):
            return embedder.row.config.get("price_per_million_tokens")
        settings = self.settings_of(embedder)
        return None if settings is None else settings.price_per_million_tokens

    def for_languages(self, languages: Collection[str], default: Embedder | None = None) -> Embedder:
        """The embedder for texts in these languages: the default one, unless a built-in one knows more of them."""
        default = default or self.default
        local = [self._embedders[model.name] for model in LOCAL_MODELS]
        return max(
            (default, *local),
            key=lambda embedder: (_count_languages(embedder, languages), embedder is default),
        )

    async def find_default(self, tx: Tx, org: OrgId) -> Embedder:
        """The embedder of new bases of `org`: the one that it chose, if that still exists, else that of the settings."""
        name = await embedder_store.default_name(tx, org)
        if name is None:
            return self.default
        try:
            return await self.find(tx, name, org)
        except Invalid:
            return self.default

    async def report_hidden(self, tx: Tx) -> list[str]:
        """Log the names of stored embedders that the settings hide, and return them."""
        hidden = await embedder_store.names_among(tx, self.names())
        for name in hidden:
            log.warning("an embedder of the settings hides a stored one", extra={"embedder": name})
        return hidden

    async def close(self) -> None:
        """Close all embedders and governors."""
        for embedder in self._embedders.values():
            await embedder.close()
        if self._stored is not None:
            await self._stored.close()
        for governor in self._governors.values():
            await governor.close()
        if self._gpu is not None:
            await self._gpu.close()

    def _create(self, name: str, settings: EmbedderSettings) -> OpenAIEmbedder:
        try:
            return OpenAIEmbedder(name, settings, self._governors.get(_provider_of(settings)))
        except Invalid as error:
            raise SetupError(f"embedders.{name}.languages: {error.message}", code="bad_setting") from None


def _unknown(name: str, available: Collection[str]) -> Invalid:
    return Invalid(
        f"There is no embedder {name}. Available: {', '.join(available)}.", code="unknown_embedder"
    )


def _gpu_client(settings: Settings, cache_dir: Path) -> GpuClient | None:
    if settings.embed_device == "cuda" and not has_torch():
        raise SetupError(
            "embed_device: PyTorch is not installed. Install `gristmill[gpu]`, or set it to `cpu`.",
            code="bad_setting",
        )
    return GpuClient(cache_dir) if settings.embed_device != "cpu" and has_torch() else None


def _count_languages(embedder: Embedder, languages: Collection[str]) -> int:
    """How many of the languages an embedder knows; an endpoint doesn't say, and was chosen by someone who knows."""
    strengths = embedder.strengths
    return len(languages) if strengths is None else sum(language in strengths for language in languages)


def _provider_of(settings: EmbedderSettings) -> str:
    return provider_key(settings.url.rstrip("/"), plaintext_key(settings))


def _make_governors(embedders: Iterable[EmbedderSettings], db: Database) -> dict[str, Governor]:
    """One governor per endpoint and API key. Embedders that share one get the lowest of their limits."""
    shared: dict[str, list[EmbedderSettings]] = {}
    for settings in embedders:
        shared.setdefault(_provider_of(settings), []).append(settings)
    return {
        key: Governor(db, key, lowest_limits(sharing), f"The embedder at {provider_host(sharing[0].url)}")
        for key, sharing in shared.items()
    }
