"""Embedders of the database in this process. Every use looks whether their rows have changed.

    find(name, org)     one small query: the revisions of the organisation's rows. If they are not the loaded ones, load again
    embed_…             the same query, then a request with the key and address of this moment

So a process needs no message about a change: the next use of an embedder, anywhere, has it. What can overlap:

    its key or address is changed     a request under way finishes with the old ones. If the endpoint rejects it, it is sent
                                      again with the new ones
    other vectors, or its deletion    refused while a base uses it. Who holds such an embedder for anything else gets
                                      `embedder_gone`

Limits apply to each address and key of one organisation: the lowest of its embedders that share them. Organisations share
none, so that one can't slow down another.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence

from tokenizers import Tokenizer

from gristmill.db import Database, Tx
from gristmill.embedding import embedder_store
from gristmill.embedding.embedder import Embedder, Vectors
from gristmill.embedding.embedder_store import EmbedderId, EmbedderRow, key_purpose
from gristmill.embedding.governor import Governor, lowest_limits, plaintext_key, provider_host, provider_key
from gristmill.embedding.kinds import KINDS, EndpointEmbedder
from gristmill.embedding.pacing import ProviderLimits
from gristmill.errors import Conflict, Permanent
from gristmill.identity import OrgId
from gristmill.settings import EmbedderSettings
from gristmill.vault import SecretUnreadable, Vault

_LOADED_ORGS = 256  # organisations whose embedders stay loaded


class EmbedderGone(Permanent):
    """The embedder was deleted, or gives other vectors by now."""

    code = "embedder_gone"


class _Connections:
    """The connections of one revision of a row, closed when a newer one has replaced it and its last call has ended."""

    def __init__(
        self, row: EmbedderRow, settings: EmbedderSettings, governor: Governor, *, allow_private: bool
    ) -> None:
        self.revision, self.governor = row.revision, governor
        self.embedder = KINDS[row.kind](row.name, settings, governor, allow_private=allow_private)
        self.is_closed = False
        self._calls = 0
        self._is_replaced = False

    async def run(self, call: Callable[[EndpointEmbedder], Awaitable[Vectors]]) -> Vectors:
        """Make one call with these connections."""
        self._calls += 1
        try:
            return await call(self.embedder)
        finally:
            self._calls -= 1
            if self._is_replaced:
                await self.close_after_calls()

    async def close_after_calls(self) -> None:
        """Close once no call is under way."""
        self._is_replaced = True
        if not self._calls and not self.is_closed:
            self.is_closed = True
            await self.embedder.close()


class StoredEmbedder:
    """An embedder of the database: the vectors of the row as it was loaded, with whichever key and address it has now.

    Two of one row with the same vectors are equal, so that their documents share batches.
    """

    def __init__(self, embedders: "StoredEmbedders", row: EmbedderRow, embedder: EndpointEmbedder) -> None:
        self.row = row
        self.name = row.name
        self.identity = embedder.identity
        self.dimensions = embedder.dimensions
        self.max_tokens = embedder.max_tokens
        self.strengths = embedder.strengths
        self._embedders, self._embedder = embedders, embedder

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StoredEmbedder):
            return NotImplemented
        return (self.row.id, self.identity) == (other.row.id, other.identity)

    def __hash__(self) -> int:
        return hash((self.row.id, self.identity))

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer that its kind counts with."""
        return self._embedder.tokenizer

    def count_tokens(self, text: str) -> int:
        """The number of tokens in `text`."""
        return self._embedder.count_tokens(text)

    async def load(self) -> None:
        """Load the tokenizer. Sends no request."""
        await self._embedder.load()

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """One row for each text, in order."""
        return await self._run(lambda embedder: embedder.embed_documents(texts))

    async def embed_query(self, text: str) -> Vectors:
        """The vector of one query."""
        return await self._run(lambda embedder: embedder.embed_query(text))

    async def close(self) -> None:
        """The registry closes its connections, which other users of the row share."""

    async def _run(self, call: Callable[[EndpointEmbedder], Awaitable[Vectors]]) -> Vectors:
        endpoint = await self._embedders.current_endpoint(self)
        try:
            return await endpoint.run(call)
        except Permanent:
            # The provider may have revoked the old key in the moment in which it was replaced here.
            newer = await self._embedders.current_endpoint(self)
            if newer is endpoint:
                raise
            return await newer.run(call)


class _LoadedOrg:
    """The embedders of one organisation as they were loaded."""

    def __init__(
        self, embedders: Mapping[str, StoredEmbedder], endpoints: Mapping[EmbedderId, _Connections]
    ) -> None:
        self.embedders, self.endpoints = embedders, endpoints
        self.revisions = {embedder.row.id: embedder.row.revision for embedder in embedders.values()}


_NOTHING_LOADED = _LoadedOrg({}, {})


class StoredEmbedders:
    """The embedders of all organisations, loaded when they are used."""

    def __init__(self, db: Database, vault: Vault, *, allow_private: bool) -> None:
        self._db, self._vault, self._allow_private = db, vault, allow_private
        self._orgs: OrderedDict[OrgId, _LoadedOrg] = OrderedDict()
        # Never removed before the end: a replaced one finishes the requests that wait in it, and gives its portion back.
        self._governors: dict[tuple[str, ProviderLimits], Governor] = {}

    async def find_all(self, tx: Tx, org: OrgId) -> Mapping[str, StoredEmbedder]:
        """The embedders of an organisation by name."""
        return (await self._load(tx, org)).embedders

    async def current_endpoint(self, embedder: StoredEmbedder) -> _Connections:
        """The endpoint with the key and address that the row has now; EmbedderGone if it has other vectors. The caller uses it
        before it awaits anything else."""
        while True:
            async with self._db.connection() as tx:
                loaded = await self._load(tx, embedder.row.org_id)
            if loaded.embedders.get(embedder.name) != embedder:
                raise EmbedderGone(
                    f"The embedder {embedder.name} was deleted, or gives other vectors by now. Choose another one."
                )
            endpoint = loaded.endpoints.get(embedder.row.id)
            if endpoint is None:
                raise SecretUnreadable(
                    f"The key of the embedder {embedder.name} can't be decrypted: the secret key of this installation has"
                    " changed. Restore it, or enter the key of the embedder again."
                )
            if not endpoint.is_closed:
                return endpoint

    async def close(self) -> None:
        """Close all connections, and give back what is left of rate limits."""
        for loaded in self._orgs.values():
            for endpoint in loaded.endpoints.values():
                await endpoint.embedder.close()
        for governor in self._governors.values():
            await governor.close()

    async def _load(self, tx: Tx, org: OrgId) -> _LoadedOrg:
        loaded = self._orgs.get(org)
        if loaded is not None and loaded.revisions == await embedder_store.revisions(tx, org):
            return loaded
        rows = await embedder_store.find_all(tx, org)
        # Nothing is awaited until the new ones are in place, so that of two loads at once one remains, whole.
        replaced = self._orgs.pop(org, _NOTHING_LOADED)
        loaded = self._orgs[org] = self._create(org, rows, replaced.endpoints)
        unused = set(replaced.endpoints.values())
        while len(self._orgs) > _LOADED_ORGS:
            unused.update(self._orgs.popitem(last=False)[1].endpoints.values())
        for endpoint in unused - set(loaded.endpoints.values()):
            await endpoint.close_after_calls()
        return loaded

    def _create(
        self, org: OrgId, rows: Sequence[EmbedderRow], old: Mapping[EmbedderId, _Connections]
    ) -> _LoadedOrg:
        """The embedders of these rows. One that did not change goes on with its connections."""
        settings = {row.id: self._settings_with_key(row) for row in rows}
        readable = [each for each in settings.values() if each is not None]
        governors = {_provider_of(org, each): self._governor(org, each, readable) for each in readable}
        embedders: dict[str, StoredEmbedder] = {}
        endpoints: dict[EmbedderId, _Connections] = {}
        for row in rows:
            row_settings = settings[row.id]
            if row_settings is None:
                embedders[row.name] = StoredEmbedder(self, row, create_embedder(row))
                continue
            governor, endpoint = governors[_provider_of(org, row_settings)], old.get(row.id)
            if endpoint is None or (endpoint.revision, endpoint.governor) != (row.revision, governor):
                allow_private = row.private or self._allow_private
                endpoint = _Connections(row, row_settings, governor, allow_private=allow_private)
            endpoints[row.id] = endpoint
            embedders[row.name] = StoredEmbedder(self, row, endpoint.embedder)
        return _LoadedOrg(embedders, endpoints)

    def _governor(
        self, org: OrgId, settings: EmbedderSettings, others: Sequence[EmbedderSettings]
    ) -> Governor:
        provider = _provider_of(org, settings)
        limits = lowest_limits([each for each in others if _provider_of(org, each) == provider])
        if (provider, limits) not in self._governors:
            name = f"The embedder at {provider_host(settings.url)}"
            self._governors[provider, limits] = Governor(self._db, provider, limits, name)
        return self._governors[provider, limits]

    def _settings_with_key(self, row: EmbedderRow) -> EmbedderSettings | None:
        """The settings of a row with its key; None if the key can't be decrypted."""
        if row.api_key is None:
            return settings_of(row)
        try:
            return settings_of(row, self._vault.open(row.api_key, key_purpose(row.id)))
        except SecretUnreadable:
            return None


async def hold_embedder(tx: Tx, embedder: Embedder) -> None:
    """Keep an embedder as it is until the transaction ends, which makes something that uses it. Conflict if it was deleted, or
    gives other vectors by now. Built-in embedders and those of the settings don't change."""
    if isinstance(embedder, StoredEmbedder):
        row = await embedder_store.hold(tx, embedder.row.org_id, embedder.name)
        if row is None or row.id != embedder.row.id or create_embedder(row).identity != embedder.identity:
            raise Conflict(
                f"The embedder {embedder.name} has just been deleted or changed. Look at the embedders, and try again.",
                code="embedder_changed",
            )


def settings_of(row: EmbedderRow, api_key: str | None = None) -> EmbedderSettings:
    """What a row says, in the form of the settings."""
    return EmbedderSettings.model_validate({**row.config, "api_key": api_key})


def create_embedder(row: EmbedderRow) -> EndpointEmbedder:
    """The embedder of a row without its key: to read its properties, not to send anything."""
    return KINDS[row.kind](row.name, settings_of(row), allow_private=False)


def _provider_of(org: OrgId, settings: EmbedderSettings) -> str:
    return provider_key(f"{org} {settings.url.rstrip('/')}", plaintext_key(settings))
