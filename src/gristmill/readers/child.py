"""The child process of a reader: reads one document after the other in a sandbox, and sends what it finds.

Whatever Python can catch is sent as an error with a code. A crash of native code or a limit of the kernel ends the
process, and the parent works out the cause. The child ends when its parent does.
"""

import contextlib
import dataclasses
import errno
import importlib
import socket
import sys
import traceback
from pathlib import Path
from typing import Any

from gristmill.readers import sandbox
from gristmill.readers.detect import detect_document
from gristmill.readers.formats import READERS, ocr, page_images
from gristmill.readers.protocol import Channel, Message
from gristmill.readers.sink import DocumentRefused, Postponed, ReadTask, Sink

_MIN_IMAGE_SIDE = 24  # pixels: less holds no line of text

# Imported before the first document arrives, so that it doesn't wait for them.
PRELOADED = (
    "kreuzberg",
    "pypdfium2",
    "lxml.html",
    "olefile",
    "zipfile",
    "charset_normalizer",
    "PIL.JpegImagePlugin",
)


def main(fd: int, parent: int) -> None:
    """Read documents until the parent is gone."""
    channel_socket = socket.socket(fileno=fd)
    channel_socket.setblocking(True)
    channel = Channel(channel_socket)
    sandbox.lock_down(parent)
    for name in PRELOADED:
        importlib.import_module(name)
    channel.send({"k": "ready"})
    while (message := channel.receive()) is not None:
        channel.send(_run_task(channel, message) | {"rss": sandbox.resident_bytes()})


def _run_task(channel: Channel, message: Message) -> Message:
    """Do one task within its limits; returns its last message: a report, pages, an image, or an error."""
    try:
        return _read_task(channel, message) if message["k"] == "read" else page_images.run(message)
    except DocumentRefused as refusal:
        return {"k": "error", "code": refusal.code, "message": refusal.message}
    except MemoryError:
        return {"k": "error", "code": "reader_out_of_memory", "message": ""}
    except RecursionError:
        return {"k": "error", "code": "corrupt", "message": "It is nested too deeply to be a valid document."}
    except Exception as error:  # a bug of ours or of a library that this document triggered
        return _error_reply(error)
    except BaseException as error:
        # A panic of Rust code: the library noticed an inconsistency and unwound.
        if type(error).__name__ != "PanicException":
            raise
        return {"k": "error", "code": "corrupt", "message": f"It can't be read: {error}"[:300]}


def _read_task(channel: Channel, message: Message) -> Message:
    """Read one document; returns its report, or that it was postponed."""
    task_fields: dict[str, Any] = message["task"]
    for name in ("path", "scratch"):
        task_fields[name] = Path(task_fields[name])
    task = ReadTask(**task_fields)
    sandbox.limit_memory(task.memory)
    sandbox.limit_cpu(task.cpu_seconds)
    sandbox.limit_file_size(task.attachment_bytes)
    sink = Sink(channel, task)
    try:
        return _read_document(sink)
    except Postponed as postponed:
        from_start = postponed.from_start
        reply: Message = {"k": "postponed", "from_start": from_start, "needs_ocr": postponed.needs_ocr}
        return reply | {"carried": sink.carried(from_start=from_start)}


def _error_reply(error: Exception) -> Message:
    if isinstance(error, OSError) and error.errno == errno.EFBIG:
        return {"k": "error", "code": "bomb", "message": "A file inside it is larger than the limit."}
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return {"k": "error", "code": "disk_full", "message": "The disk is full: its attachments don't fit."}
    traceback.print_exception(error)
    return {"k": "error", "code": "reader_failed", "message": f"{type(error).__name__}: {error}"[:500]}


def _read_document(sink: Sink) -> Message:
    """Read the sink's document; returns its report."""
    sink.format = detect_document(sink.task.path, sink.task.name, sink.task.media_type)
    report = sink.report
    report.kind = sink.format.kind
    READERS[report.kind](sink)
    if not sink.text_length and sink.ocr_candidates and sink.task.ocr:
        _recognise_images(sink)
    if sink.ocr_count:
        sink.warn(f"ocr_used:{sink.ocr_count}")
    if sink.doubtful_count:
        sink.warn(f"ocr_doubtful:{sink.doubtful_count}")
    if not sink.text_length and "empty" not in report.warnings and not sink.is_resumed:
        if not sink.attachment_count and not sink.image_count:
            raise DocumentRefused("It contains no text.", code="no_text")
        if not sink.attachment_count:
            sink.warn("no_text")
    return {"k": "report", **dataclasses.asdict(report)}


def _recognise_images(sink: Sink) -> None:
    """Take the text of a document that consists of images from these images."""
    for path, page, digest in sink.ocr_candidates:
        with contextlib.suppress(DocumentRefused):  # an image that can't be opened has no text
            picture = ocr.open_image(path.read_bytes())
            if min(picture.shape[:2]) < _MIN_IMAGE_SIDE or not sink.reserve_ocr(from_start=True):
                continue
            recognised = ocr.recognise(picture)
            sink.count_ocr(is_doubtful=recognised.is_doubtful)
            sink.report.ocr_hashes.append(digest)
            if recognised.text:
                sink.add_text(recognised.text + "\n\n", page)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
