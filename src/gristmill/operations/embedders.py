"""Create, change and delete the embedders that organisations store.

    create     the name must be free, also among the built-in ones and those of the settings. Without `dimensions`, the
               endpoint is asked for them first
    change     key, address, limits: at any time. Model, dimensions, prefixes: only while no base uses it, because its vectors
               would no longer fit those that the base has
    delete     only while no base uses it, is being changed to it, or can go back to it
    default    which one new bases get, of any origin; a deleted one is it no more

Each is one transaction, and nothing is sent while it is open. A base that is created at the same moment holds the row
(`embedding/embedder_store.py`), so one of the two sees the other. Killed before the commit, nothing happened; killed after it,
every process uses the row as it is now.

The key is encrypted by the vault. It is sent to the address that it was entered for and to no other: whoever changes the
address enters the key again, or an admin could read a key that he does not know.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import uuid4

import httpx
from pydantic import SecretStr, ValidationError

from gristmill import catalog, faults, net
from gristmill.catalog import EmbedderUse
from gristmill.db import Database, Tx
from gristmill.embedding import Embedders, embedder_store, hold_embedder
from gristmill.embedding.embedder_store import EmbedderId, EmbedderRow, key_purpose
from gristmill.embedding.kinds import KINDS
from gristmill.embedding.language_codes import language_names
from gristmill.errors import Conflict, FieldError, Invalid, NotFound, PreconditionFailed, WorkError
from gristmill.identity import OrgId
from gristmill.settings import EmbedderSettings
from gristmill.vault import Vault

MAX_EMBEDDERS = 100  # of one organisation
_NAMED_BASES = 5  # that a message names
_LISTED_BASES = 100  # that an error lists
_UNKNOWN_DIMENSIONS = 1  # until the endpoint has been asked


@dataclass(frozen=True)
class EmbedderAdmin:
    """The stored embedders of one organisation, for one caller."""

    db: Database
    vault: Vault
    embedders: Embedders
    org: OrgId
    is_local_user: bool  # an address that the local user gives may be private, as one of the settings
    allow_private: bool  # and by the settings everyone's

    async def create(
        self, name: str, kind: str, config: Mapping[str, Any], api_key: str | None
    ) -> EmbedderRow:
        """Create an embedder; `config` has the fields of `EmbedderSettings` that are given."""
        if name.lower() in map(str.lower, self.embedders.names()):
            raise _name_taken(name)
        settings = await self._validate(config, is_new_address=True)
        if "dimensions" not in config:
            settings = await self._measure(name, kind, settings, api_key)
        embedder_id = EmbedderId(uuid4())
        async with self.db.transaction() as tx:
            if await embedder_store.count_locked(tx, self.org) >= MAX_EMBEDDERS:
                raise Conflict(
                    f"There are {MAX_EMBEDDERS} embedders already, which is the most that an organisation may have."
                    " Delete one first.",
                    code="too_many_embedders",
                )
            identity = KINDS[kind](name, settings, allow_private=False).identity
            await self._refuse_other_vectors(tx, name, identity)
            row = await embedder_store.insert(
                tx,
                embedder_id,
                self.org,
                name=name,
                kind=kind,
                config=_config_of(settings),
                api_key=self._seal(embedder_id, api_key),
                private=self.is_local_user,
            )
            if row is None:
                raise _name_taken(name)
            await faults.point("embedder.before_commit")
        return row

    async def change(
        self, name: str, changes: Mapping[str, Any], check: Callable[[datetime], None] | None = None
    ) -> EmbedderRow:
        """Change the given fields of an embedder, `api_key` among them. `check` gets the time of the last change, and may
        raise."""
        async with self.db.connection() as tx:
            old = _require(await self._find(tx, name), name)
        config = {**old.config, **{field: value for field, value in changes.items() if field != "api_key"}}
        is_new_address = config["url"] != old.config["url"]
        if is_new_address:
            _require_key_for_address(old, config["url"], changes)
        settings = await self._validate(config, is_new_address=is_new_address)
        if settings.model != old.config["model"] and "dimensions" not in changes:  # another model has its own
            api_key = changes["api_key"] if "api_key" in changes else self._open(old)
            settings = await self._measure(name, old.kind, settings, api_key)
        async with self.db.transaction() as tx:
            row = _require(await embedder_store.lock(tx, self.org, name), name)
            if check is not None:
                check(row.updated_at)
            if row.revision != old.revision or row.id != old.id:
                raise PreconditionFailed(
                    "The embedder was changed at the same moment. Read it again, and send your change again."
                )
            await self._refuse_other_vectors(
                tx, name, KINDS[row.kind](name, settings, allow_private=False).identity
            )
            changed = await embedder_store.update(
                tx,
                row.id,
                config=_config_of(settings),
                api_key=self._seal(row.id, changes["api_key"]) if "api_key" in changes else row.api_key,
                private=self.is_local_user if is_new_address else row.private,
            )
            await faults.point("embedder.before_commit")
        return changed

    async def delete(self, name: str) -> None:
        """Delete an embedder that no base uses."""
        async with self.db.transaction() as tx:
            row = _require(await embedder_store.lock(tx, self.org, name), name)
            if uses := await catalog.find_embedder_uses(tx, self.org, name):
                raise Conflict(
                    f"The embedder {name} was not deleted: {_base_names(uses)} it, or can go back to it. Give each of these bases"
                    " another embedder first, or delete it.",
                    code="embedder_in_use",
                    fields=_base_fields(uses),
                )
            await embedder_store.reset_default(tx, self.org, name)
            await embedder_store.delete(tx, row.id)
            await faults.point("embedder.before_commit")

    async def make_default(self, name: str) -> None:
        """Choose the embedder of new bases, of any origin. A stored one that is deleted at the same moment waits for this, or is
        not found."""
        async with self.db.transaction() as tx:
            embedder = await self.embedders.find(tx, name, self.org)
            await hold_embedder(tx, embedder)
            await embedder_store.set_default(tx, self.org, embedder.name)

    async def reset_default(self, name: str) -> None:
        """Leave the embedder of new bases to the settings again, if it is this one."""
        async with self.db.transaction() as tx:
            await embedder_store.reset_default(tx, self.org, name)

    async def _find(self, tx: Tx, name: str) -> EmbedderRow | None:
        return next((row for row in await embedder_store.find_all(tx, self.org) if row.name == name), None)

    async def _validate(self, config: Mapping[str, Any], *, is_new_address: bool) -> EmbedderSettings:
        """The settings of an embedder, without its key; `dimensions` may be missing yet."""
        languages = language_names(config.get("languages", []))
        settings = EmbedderSettings.model_validate(
            {"dimensions": _UNKNOWN_DIMENSIONS, **config, "languages": languages}
        )
        if is_new_address and not self._may_be_private:
            await net.check_public(settings.url)
        return settings

    async def _measure(
        self, name: str, kind: str, settings: EmbedderSettings, api_key: str | None
    ) -> EmbedderSettings:
        """The settings with the dimensions that the endpoint's vectors have."""
        if settings.send_dimensions:
            raise Invalid(
                "With `sendDimensions`, the endpoint makes vectors as long as you ask for. Give `dimensions`.",
                fields=[FieldError("dimensions", "is required with sendDimensions")],
            )
        with_key = settings.model_copy(update={"api_key": None if api_key is None else SecretStr(api_key)})
        embedder = KINDS[kind](name, with_key, allow_private=self._may_be_private)
        try:
            dimensions = await embedder.measure_dimensions()
            return EmbedderSettings.model_validate({**settings.model_dump(), "dimensions": dimensions})
        except (WorkError, ValidationError) as error:
            reason = error.message if isinstance(error, WorkError) else "Its vectors have an unusual length."
            raise Invalid(
                f"The endpoint was asked how many dimensions its vectors have, and failed. {reason}"
                " Correct the address, model or key; or give `dimensions`.",
                code="embedder_not_measured",
            ) from error
        finally:
            await embedder.close()

    @property
    def _may_be_private(self) -> bool:
        return self.is_local_user or self.allow_private

    async def _refuse_other_vectors(self, tx: Tx, name: str, identity: str) -> None:
        uses = await catalog.find_embedder_uses(tx, self.org, name)
        if other := [use for use in uses if use.embedder_identity != identity]:
            raise Conflict(
                f"This embedder would give other vectors than {name} gave, and {_base_names(other)} it, or can go back to it."
                " Create an embedder with another name, and swap the embedder of these bases.",
                code="embedder_vectors_in_use",
                fields=_base_fields(other),
            )

    def _seal(self, embedder_id: EmbedderId, api_key: str | None) -> bytes | None:
        return None if api_key is None else self.vault.seal(api_key, key_purpose(embedder_id))

    def _open(self, row: EmbedderRow) -> str | None:
        return None if row.api_key is None else self.vault.open(row.api_key, key_purpose(row.id))


def _config_of(settings: EmbedderSettings) -> dict[str, Any]:
    return settings.model_dump(mode="json", exclude={"api_key"})


def _require_key_for_address(old: EmbedderRow, url: str, changes: Mapping[str, Any]) -> None:
    """Raise if the stored key would be sent to a host that it was not entered for."""
    if old.api_key is None or "api_key" in changes or _origin(url) == _origin(old.config["url"]):
        return
    raise Invalid(
        "The new address is another host, and the stored key is not sent there. Give `apiKey` too.",
        code="embedder_key_required",
        fields=[FieldError("apiKey", "is required with another host")],
    )


def _origin(url: str) -> tuple[str, str, int | None]:
    parsed = httpx.URL(url)
    return parsed.scheme, parsed.host, parsed.port


def _require(row: EmbedderRow | None, name: str) -> EmbedderRow:
    if row is None:
        raise NotFound(f"There is no stored embedder {name!r}.", code="embedder_not_found")
    return row


def _base_fields(uses: Sequence[EmbedderUse]) -> list[FieldError]:
    names = {use.base_id: use.base_name for use in uses}
    return [FieldError(str(base_id), name) for base_id, name in names.items()][:_LISTED_BASES]


def _base_names(uses: Sequence[EmbedderUse]) -> str:
    """`a and b use`, shortened."""
    bases = {use.base_id: repr(use.base_name) for use in uses}
    names = list(bases.values())[:_NAMED_BASES]
    if len(bases) > _NAMED_BASES:
        names.append(f"{len(bases) - _NAMED_BASES} more")
    text = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    return f"{text} {'uses' if len(bases) == 1 else 'use'}"


def _name_taken(name: str) -> Conflict:
    return Conflict(
        f"There is an embedder named {name!r} already. Choose another name.", code="embedder_name_taken"
    )
