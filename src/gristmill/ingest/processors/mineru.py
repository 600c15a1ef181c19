"""MinerU, through its API (v4): request an upload URL, upload, poll the batch, download an archive with the markdown.

It can't cancel a batch. The upload and download URLs belong to other hosts, so the API key is not sent there.
"""

import io
import zipfile
from collections.abc import AsyncGenerator, Collection
from pathlib import Path
from typing import Any
from urllib.parse import quote

from gristmill.errors import Permanent
from gristmill.ingest.processors.client import ProcessorClient
from gristmill.ingest.processors.processor import ConversionState, ProcessorConfig

_EXTENSIONS = frozenset(["pdf", "doc", "docx", "ppt", "pptx", "png", "jpg", "jpeg"])
_STATES = {"waiting-file": "waiting", "pending": "waiting", "converting": "running", "running": "running"} | {
    "done": "done",
    "failed": "failed",
}
_MAX_MARKDOWN = 256 * 1024 * 1024
_BLOCK = 256 * 1024


class MinerU:
    """MinerU's service, or one with the same API."""

    def __init__(self, config: ProcessorConfig, model: str = "vlm") -> None:
        headers = {"Authorization": f"Bearer {config.api_key}"} if config.api_key else {}
        self._client, self._model = ProcessorClient("MinerU", config, headers), model

    @property
    def identity(self) -> str:
        """Identifies the converter in content digests."""
        return f"mineru/v4/{self._model}"

    @property
    def extensions(self) -> Collection[str]:
        """The file extensions that it accepts."""
        return _EXTENSIONS

    async def start(self, path: Path, name: str) -> str:
        """Request an upload URL and upload there, which starts the conversion."""
        request = {"files": [{"name": name}], "model_version": self._model}
        data = self._data(await self._client.post("/api/v4/file-urls/batch", begins=False, json=request))
        batch, addresses = data.get("batch_id"), data.get("file_urls")
        if not isinstance(batch, str) or not isinstance(addresses, list) or len(addresses) != 1:  # pyright: ignore[reportUnknownArgumentType]
            raise self._client.bad_response("has no batch with one upload URL")
        await self._client.put(str(addresses[0]), _file_blocks(path))  # pyright: ignore[reportUnknownArgumentType]
        return batch

    async def poll(self, remote_id: str) -> ConversionState:
        """The state of the batch, which has one file."""
        result = await self._batch_result(remote_id)
        kind: Any = _STATES.get(str(result.get("state", "pending")))
        if kind is None:
            raise self._client.bad_response(f"has the unknown state {result.get('state')!r}")
        progress: Any = result.get("extract_progress") or {}
        pages = float(progress.get("extracted_pages") or 0) + (0.5 if kind == "running" else 0)
        return ConversionState(kind, pages, message=str(result.get("err_msg") or ""))

    async def fetch(self, remote_id: str) -> str:
        """The markdown in the batch's result archive."""
        address = (await self._batch_result(remote_id)).get("full_zip_url")
        if not isinstance(address, str) or not address:
            raise self._client.bad_response("has no URL of the result")
        archive = await self._client.download(address)
        try:
            with zipfile.ZipFile(io.BytesIO(archive)) as opened:
                names = [name for name in opened.namelist() if name.endswith(".md")]
                name = next((name for name in names if name.endswith("full.md")), names[0] if names else "")
                if not name or opened.getinfo(name).file_size > _MAX_MARKDOWN:
                    raise self._client.bad_response("contains no markdown, or too much of it")
                return opened.read(name).decode("utf-8", "replace")
        except (zipfile.BadZipFile, OSError, ValueError) as error:
            raise self._client.bad_response("is not a readable archive") from error

    async def cancel(self, remote_id: str) -> bool:
        """MinerU can't cancel batches."""
        return False

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def _batch_result(self, remote_id: str) -> dict[str, Any]:
        body = await self._client.get(f"/api/v4/extract-results/batch/{quote(remote_id, safe='')}")
        results: Any = self._data(body).get("extract_result") or [{}]
        return results[0] if isinstance(results, list) else results  # pyright: ignore[reportUnknownVariableType]

    def _data(self, body: bytes) -> dict[str, Any]:
        response = self._client.json(body)
        if response.get("code") != 0:
            reason = str(response.get("msg") or response.get("msgCode") or "no reason given")[:300]
            raise Permanent(f"MinerU rejected the request: {reason}.", code="processor_refused")
        data = response.get("data")
        if not isinstance(data, dict):
            raise self._client.bad_response("has no data")
        return data  # pyright: ignore[reportUnknownVariableType]  -- JSON's objects have strings for keys


async def _file_blocks(path: Path) -> AsyncGenerator[bytes]:
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            yield block
