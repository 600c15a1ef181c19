"""Responses as OpenAI's SDKs read them: times in seconds, lists with `has_more`, ids with prefixes."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from gristmill import search
from gristmill.catalog import Base, BaseId, ItemStatus
from gristmill.files import FileBatch, FileStatus, StoreCount, StoredFile, StoreDocument
from gristmill.server.api import store_ids

Row = TypeVar("Row")
Json = dict[str, Any]

_DEFAULT_CHUNK = 256  # tokens, of a base without its own setting
SERVER_ERROR = "server_error"
_UNSUPPORTED = frozenset({"unsupported_type", "unknown_encoding"})
_INVALID = frozenset(
    {
        "no_text",
        "encrypted",
        "corrupt",
        "bomb",
        "unsafe_xml",
        "unreadable",
        "document_too_large",
        "source_gone",
    }
)
_STATUSES: tuple[FileStatus, ...] = ("in_progress", "completed", "failed", "cancelled")


def page(rows: Sequence[Row], show: Callable[[Row], Json], *, has_more: bool) -> Json:
    """One page of a list."""
    data = [show(row) for row in rows]
    return {
        "object": "list",
        "data": data,
        "first_id": data[0]["id"] if data else None,
        "last_id": data[-1]["id"] if data else None,
        "has_more": has_more,
    }


def file_object(file: StoredFile) -> Json:
    """A file."""
    return {
        "id": store_ids.file_id(file.id),
        "object": "file",
        "bytes": file.size,
        "created_at": _seconds(file.created_at),
        "expires_at": None if file.expires_at is None else _seconds(file.expires_at),
        "filename": file.name,
        "purpose": file.purpose,
        "status": "processed",
        "status_details": None,
    }


def store_object(base: Base, counts: Sequence[StoreCount], *, is_expired: bool) -> Json:
    """A vector store."""
    files = dict.fromkeys(_STATUSES, 0)
    for row in counts:
        if not row.is_container:
            files[row.status] += row.count
    is_busy = any(row.status == "in_progress" for row in counts)
    days = base.expire_days
    return {
        "id": store_ids.store_id(base.id),
        "object": "vector_store",
        "created_at": _seconds(base.created_at),
        "name": base.name,
        "description": base.description,
        "usage_bytes": sum(row.bytes for row in counts if not row.is_container),
        "file_counts": {**files, "total": sum(files.values())},
        "status": "expired" if is_expired else "in_progress" if is_busy else "completed",
        "expires_after": None if days is None else {"anchor": "last_active_at", "days": days},
        "expires_at": None if base.expires_at is None else _seconds(base.expires_at),
        "last_active_at": None if base.last_active_at is None else _seconds(base.last_active_at),
        "metadata": {key: text for key, text in base.metadata.items() if isinstance(text, str)},
    }


def counts_of(counts: Sequence[StoreCount], base_id: BaseId) -> list[StoreCount]:
    """The counts of one base."""
    return [row for row in counts if row.base_id == base_id]


def store_file_object(base: Base, item: StoreDocument) -> Json:
    """A file of a vector store."""
    chunking = {**base.chunking, **item.chunking}
    return {
        "id": store_ids.item_file_id(item),
        "object": "vector_store.file",
        "created_at": _seconds(item.created_at),
        "usage_bytes": item.size_bytes or 0,
        "vector_store_id": store_ids.store_id(base.id),
        "status": item.file_status,
        "last_error": _last_error(item),
        "attributes": attributes(item.metadata),
        "chunking_strategy": {
            "type": "static",
            "static": {
                "max_chunk_size_tokens": chunking.get("maxTokens", _DEFAULT_CHUNK),
                "chunk_overlap_tokens": chunking.get("overlapTokens", 0),
            },
        },
    }


def attributes(metadata: Mapping[str, Any]) -> Json:
    """The entries of metadata that can be attributes: text, numbers, true and false."""
    return {key: value for key, value in metadata.items() if isinstance(value, str | int | float)}


def _last_error(item: StoreDocument) -> Json | None:
    if item.file_status != "failed":
        return None
    if item.status is not ItemStatus.FAILED:  # it is paused or stalled
        reason = item.waiting_for["message"] if item.waiting_for else "No worker is running."
        return {
            "code": SERVER_ERROR,
            "message": f"{reason} The file is indexed as soon as that is possible.",
        }
    code = item.error_code or ""
    kind = (
        "unsupported_file" if code in _UNSUPPORTED else "invalid_file" if code in _INVALID else SERVER_ERROR
    )
    return {"code": kind, "message": item.error_message or code}


def batch_object(batch: FileBatch, counts: Mapping[FileStatus, int]) -> Json:
    """A batch of files. It has failed if nothing of it was completed."""
    files = {status: counts.get(status, 0) for status in _STATUSES}
    if batch.cancelled_at is not None:
        status = "cancelled"
    elif files["in_progress"]:
        status = "in_progress"
    else:
        status = "failed" if files["failed"] and not files["completed"] else "completed"
    return {
        "id": store_ids.batch_id(batch.id),
        "object": "vector_store.files_batch",
        "created_at": _seconds(batch.created_at),
        "vector_store_id": store_ids.store_id(batch.base_id),
        "status": status,
        "file_counts": {**files, "total": sum(files.values())},
    }


def search_page(
    queries: Sequence[str],
    hits: Sequence[search.Hit],
    file_ids: Mapping[Any, str],
    skipped: Sequence[search.SkippedSearch],
) -> Json:
    """The results of a search, each with the text of one chunk. What could not be searched is a further field, if there is
    any."""
    notes = notes_on_skipped(skipped)
    return {
        "object": "vector_store.search_results.page",
        "search_query": list(queries),
        "data": [
            {
                "file_id": file_ids[hit.item_id],
                "filename": filename(hit),
                "score": hit.score,
                "attributes": attributes(hit.metadata),
                "content": [{"type": "text", "text": hit.text}],
            }
            for hit in hits
        ],
        "has_more": False,
        "next_page": None,
        **({"skipped": notes} if notes else {}),
    }


def filename(hit: search.Hit) -> str:
    """The name of the file that a hit is from."""
    return hit.source.get("name") or hit.title


def notes_on_skipped(skipped: Sequence[search.SkippedSearch]) -> list[Json]:
    """What could not be searched, and why."""
    return [{"leg": each.leg, "code": each.error.code, "message": each.message} for each in skipped]


def deletion(object_id: str, kind: str) -> Json:
    """The response to a deletion."""
    return {"id": object_id, "object": kind, "deleted": True}


def _seconds(at: datetime) -> int:
    return int(at.timestamp())
