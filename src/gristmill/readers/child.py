"""A reader's child process: confined, it reads one document after the other and tells what it finds.

Everything that can go wrong inside is told as an error with a code; what can't be told (a crash of native code, the
kernel's limits) ends the process, and the parent says what that means. It ends when its parent does.
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

from gristmill import niceness
from gristmill.readers import language, sandbox
from gristmill.readers.formats import ocr
from gristmill.readers.kinds import READERS, document_kind
from gristmill.readers.protocol import Channel, Message
from gristmill.readers.sink import DocumentRefused, ReadTask, Sink

_MIN_IMAGE_SIDE = 24  # pixels: less holds no line of text

# Loaded before the first document comes, off its way.
_PRELOADED = ("kreuzberg", "pypdfium2", "lxml.html", "olefile", "zipfile", "charset_normalizer")


def main(fd: int, parent: int) -> None:
    """Serve until the parent is gone."""
    channel_socket = socket.socket(fileno=fd)
    channel_socket.setblocking(True)
    niceness.lower_thread_priority()
    channel = Channel(channel_socket)
    is_isolated = sandbox.lock_down(parent)
    for name in _PRELOADED:
        importlib.import_module(name)
    channel.send({"k": "ready", "network": not is_isolated})
    while (message := channel.receive()) is not None:
        channel.send(_run_task(channel, message) | {"rss": sandbox.resident_bytes()})


def _run_task(channel: Channel, message: Message) -> Message:
    task_fields: dict[str, Any] = message["task"]
    for name in ("path", "scratch"):
        task_fields[name] = Path(task_fields[name])
    task = ReadTask(**task_fields)
    sandbox.limit_memory(task.memory)
    sandbox.limit_cpu(task.cpu_seconds)
    sandbox.limit_file_size(task.embedded_bytes)
    try:
        return read(Sink(channel, task))
    except DocumentRefused as refusal:
        return {"k": "error", "code": refusal.code, "message": refusal.message}
    except MemoryError:
        return {"k": "error", "code": "reader_out_of_memory", "message": ""}
    except RecursionError:
        return {"k": "error", "code": "corrupt", "message": "It is nested deeper than any document is."}
    except Exception as error:  # a bug of ours or of a library that one document set off
        return _error_reply(error)
    except BaseException as error:
        # A panic of Rust: the library noticed that it was led astray, and unwound.
        if type(error).__name__ != "PanicException":
            raise
        return {"k": "error", "code": "corrupt", "message": f"It can't be read: {error}"[:300]}


def _error_reply(error: Exception) -> Message:
    if isinstance(error, OSError) and error.errno == errno.EFBIG:
        return {"k": "error", "code": "bomb", "message": "A document inside it is larger than it may be."}
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return {"k": "error", "code": "disk_full", "message": "There is no room for what it holds."}
    traceback.print_exception(error)
    return {"k": "error", "code": "reader_failed", "message": f"{type(error).__name__}: {error}"[:500]}


def read(sink: Sink) -> Message:
    """Read the sink's document; the last message of it."""
    kind = document_kind(sink.task.path, sink.task.name, sink.task.media_type)
    sink.report.kind = kind
    READERS[kind](sink)
    if not sink.text_length and sink.ocr_candidates and sink.task.ocr:
        _recognise_images(sink)
    draft = sink.report
    if sink.ocr_count:
        sink.warn(f"ocr_used:{sink.ocr_count}")
    if not sink.text_length and "empty" not in draft.warnings and not sink.task.after_page:
        if not sink.attachment_count and not sink.image_count:
            raise DocumentRefused("It was read, and holds no text.", code="no_text")
        if not sink.attachment_count:
            sink.warn("no_text")
    report = dataclasses.asdict(draft)
    return {"k": "report", **report, "language": language.guess(sink.sample)}


def _recognise_images(sink: Sink) -> None:
    """A document that is nothing but images: their text is its text."""
    for path, page, digest in sink.ocr_candidates:
        with contextlib.suppress(DocumentRefused):  # an image that can't be opened has none
            picture = ocr.open_image(path.read_bytes())
            if min(picture.shape[:2]) < _MIN_IMAGE_SIDE or not sink.reserve_ocr():
                continue
            sink.ocr_count += 1
            sink.report.recognised.append(digest)
            if text := ocr.recognise(picture):
                sink.add_text(text + "\n\n", page)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
