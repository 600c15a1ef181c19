"""docling-serve, through its asynchronous API (v1): upload, poll, fetch the markdown.

It can't cancel a task, so each task is sent with a time limit.
"""

from collections.abc import Collection
from pathlib import Path
from typing import Any
from urllib.parse import quote

from gristmill.ingest.processors.client import ProcessorClient
from gristmill.ingest.processors.processor import ConversionState, ProcessorConfig

_EXTENSIONS = frozenset(
    [
        "pdf",
        "docx",
        "pptx",
        "xlsx",
        "html",
        "htm",
        "xhtml",
        "md",
        "adoc",
        "csv",
        "png",
        "jpg",
        "jpeg",
        "tif",
        "tiff",
        "bmp",
        "webp",
        "odt",
        "ods",
        "odp",
        "epub",
    ]
)
_STATES = {"pending": "waiting", "started": "running", "running": "running", "processing": "running"} | {
    "success": "done",
    "completed": "done",
    "partial_success": "done",
    "failure": "failed",
    "failed": "failed",
    "skipped": "failed",
}
_TIME_LIMIT = 2 * 60 * 60


class DoclingServe:
    """A docling-serve instance."""

    def __init__(self, config: ProcessorConfig) -> None:
        headers = {"X-Api-Key": config.api_key} if config.api_key else {}
        self._client = ProcessorClient("docling-serve", config, headers)

    @property
    def identity(self) -> str:
        """Identifies the converter in content digests."""
        return "docling-serve/v1/md"

    @property
    def extensions(self) -> Collection[str]:
        """The file extensions that it accepts."""
        return _EXTENSIONS

    async def start(self, path: Path, name: str) -> str:
        """Upload the file."""
        fields = {
            "to_formats": "md",
            "image_export_mode": "placeholder",
            "document_timeout": str(_TIME_LIMIT),
        }
        with path.open("rb") as file:
            files = {"files": (name, file)}
            body = await self._client.post("/v1/convert/file/async", begins=True, data=fields, files=files)
        task = self._client.json(body).get("task_id")
        if not isinstance(task, str) or not task:
            raise self._client.bad_response("has no task id")
        return task

    async def poll(self, remote_id: str) -> ConversionState:
        """The state of the task."""
        status = self._client.json(await self._client.get(f"/v1/status/poll/{quote(remote_id, safe='')}"))
        kind: Any = _STATES.get(str(status.get("task_status")))
        if kind is None:
            raise self._client.bad_response(f"has the unknown status {status.get('task_status')!r}")
        meta: Any = status.get("task_meta") or {}
        done = float(meta.get("num_processed") or 0) + (0.5 if kind == "running" else 0)
        position = status.get("task_position")
        message = str(status.get("error_message") or status.get("detail") or "")
        return ConversionState(kind, done, position if isinstance(position, int) else None, message)

    async def fetch(self, remote_id: str) -> str:
        """The markdown of the task."""
        body = await self._client.get(
            f"/v1/result/{quote(remote_id, safe='')}", max_bytes=self._client.max_result_bytes
        )
        document: Any = self._client.json(body).get("document") or {}
        text = document.get("md_content")
        if not isinstance(text, str):
            raise self._client.bad_response("has no markdown")
        return text

    async def cancel(self, remote_id: str) -> bool:
        """docling-serve can't cancel tasks."""
        return False

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()
