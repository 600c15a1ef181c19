"""For tests of connectors: opens one on this machine, and reads everything that it has, without a database."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from gristmill.connectors.port import Attachment, Connector, ConnectorKind, ConnectorLimits, Document
from gristmill.errors import SourceGone


@dataclass(frozen=True)
class ReadDocument:
    """A document with its text, and the bytes of its attachments by name."""

    document: Document
    text: str
    attachments: dict[str, bytes] = field(default_factory=dict[str, bytes])


def open_kind(kind: ConnectorKind, config: dict[str, Any], credentials: dict[str, Any]) -> Connector:
    """A connector of a kind, which may reach private addresses and waits for no rate limit."""
    limits = ConnectorLimits(allow_private=True, max_wait=timedelta(0))
    return kind.open(kind.config.model_validate(config), kind.credentials.model_validate(credentials), limits)


@asynccontextmanager
async def open_temporarily(
    kind: ConnectorKind, config: dict[str, Any], credentials: dict[str, Any]
) -> AsyncGenerator[Connector]:
    """A connector of a kind, closed at the end of the block."""
    connector = open_kind(kind, config, credentials)
    try:
        yield connector
    finally:
        await connector.close()


async def read_all(connector: Connector) -> dict[str, ReadDocument]:
    """Read every document as the first run does, by its id, and close the connector.

    What a listing names must be readable with `fetch`, and its mark must stay the same while nothing changes.
    """
    documents: dict[str, ReadDocument] = {}
    try:
        async for batch in connector.sync({}):
            assert batch.problem is None, batch.problem
            assert not batch.failures, batch.failures
            for document in batch.documents:
                documents[document.ref.source_id] = await _read(connector, document)
            for listed in batch.present:
                if listed.ref.source_id in documents:
                    continue
                document = await connector.fetch(listed.ref)
                if listed.mark is not None:
                    assert document.mark == listed.mark, f"{listed.ref.source_id} has another mark"
                documents[document.ref.source_id] = await _read(connector, document)
    finally:
        await connector.close()
    return documents


async def _read(connector: Connector, document: Document) -> ReadDocument:
    text = document.body
    if document.file is not None:
        text = (await _download(connector, document.file)).decode("utf-8", "replace")
    attachments = {
        attachment.name: await _download(connector, attachment) for attachment in document.attachments
    }
    return ReadDocument(document, text, attachments)


async def _download(connector: Connector, attachment: Attachment) -> bytes:
    try:
        return b"".join([piece async for piece in connector.download(attachment)])
    except SourceGone as error:
        raise AssertionError(f"{attachment.name} can't be downloaded: {error.message}") from error
