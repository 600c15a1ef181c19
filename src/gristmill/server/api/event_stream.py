"""Responses of server-sent events."""

import asyncio
import logging
from collections.abc import Mapping
from datetime import timedelta

from fastapi.responses import StreamingResponse
from starlette.types import Message, Send

# A client that accepts nothing for this long is disconnected.
_SEND_TIMEOUT = timedelta(seconds=30)

log = logging.getLogger(__name__)


class EventStream(StreamingResponse):
    """Server-sent events. nginx passes them on at once, even if it buffers other responses."""

    media_type = "text/event-stream"

    def init_headers(self, headers: Mapping[str, str] | None = None) -> None:
        """Set the headers."""
        super().init_headers({**(headers or {}), "X-Accel-Buffering": "no"})

    async def stream_response(self, send: Send) -> None:
        """Send until the stream ends or the client stops reading."""

        async def send_with_timeout(message: Message) -> None:
            async with asyncio.timeout(_SEND_TIMEOUT.total_seconds()):
                await send(message)

        try:
            await super().stream_response(send_with_timeout)
        except TimeoutError:
            log.info("event stream closed: the client stopped reading")


def encode_frame(name: str, data: str, position: int | None = None) -> str:
    """One event."""
    id_line = "" if position is None else f"id: {position}\n"
    return f"{id_line}event: {name}\ndata: {data}\n\n"
