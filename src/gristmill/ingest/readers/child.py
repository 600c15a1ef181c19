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

from gristmill import priority
from gristmill.ingest.readers import confine, language
from gristmill.ingest.readers.formats import ocr
from gristmill.ingest.readers.kinds import READERS, kind_of
from gristmill.ingest.readers.sink import Refused, Sink, Task
from gristmill.ingest.readers.wire import Line, Message

_SMALLEST = 24  # pixels: less holds no line of text

# Loaded before the first document comes, off its way.
_WARM = ("kreuzberg", "pypdfium2", "lxml.html", "olefile", "zipfile", "charset_normalizer")


def main(fd: int, parent: int) -> None:
    """Serve until the parent is gone."""
    line_socket = socket.socket(fileno=fd)
    line_socket.setblocking(True)
    priority.step_back()
    line = Line(line_socket)
    alone = confine.lock_down(parent)
    for name in _WARM:
        importlib.import_module(name)
    line.send({"k": "ready", "network": not alone})
    while (message := line.receive()) is not None:
        line.send(_serve(line, message) | {"rss": confine.resident()})


def _serve(line: Line, message: Message) -> Message:
    given: dict[str, Any] = message["task"]
    for name in ("path", "scratch"):
        given[name] = Path(given[name])
    task = Task(**given)
    confine.limit_memory(task.memory)
    confine.limit_cpu(task.cpu_seconds)
    confine.limit_files(task.embedded_bytes)
    try:
        return read(Sink(line, task))
    except Refused as refusal:
        return {"k": "error", "code": refusal.code, "message": refusal.message}
    except MemoryError:
        return {"k": "error", "code": "reader_out_of_memory", "message": ""}
    except RecursionError:
        return {"k": "error", "code": "corrupt", "message": "It is nested deeper than any document is."}
    except Exception as error:  # a bug of ours or of a library that one document set off
        return _failed(error)
    except BaseException as error:
        # A panic of Rust: the library noticed that it was led astray, and unwound.
        if type(error).__name__ != "PanicException":
            raise
        return {"k": "error", "code": "corrupt", "message": f"It can't be read: {error}"[:300]}


def _failed(error: Exception) -> Message:
    if isinstance(error, OSError) and error.errno == errno.EFBIG:
        return {"k": "error", "code": "bomb", "message": "A document inside it is larger than it may be."}
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return {"k": "error", "code": "disk_full", "message": "There is no room for what it holds."}
    traceback.print_exception(error)
    return {"k": "error", "code": "reader_failed", "message": f"{type(error).__name__}: {error}"[:500]}


def read(sink: Sink) -> Message:
    """Read the sink's document; the last message of it."""
    kind = kind_of(sink.task.path, sink.task.name, sink.task.media_type)
    sink.told.kind = kind
    READERS[kind](sink)
    if not sink.letters and sink.rasters and sink.task.ocr:
        _recognise_images(sink)
    told = sink.told
    if sink.recognised:
        sink.warn(f"ocr_used:{sink.recognised}")
    if not sink.letters and "empty" not in told.warnings and not sink.task.after_page:
        if not sink.children and not sink.images:
            raise Refused("It was read, and holds no text.", code="no_text")
        if not sink.children:
            sink.warn("no_text")
    report = dataclasses.asdict(told)
    return {"k": "report", **report, "language": language.guess(sink.sample)}


def _recognise_images(sink: Sink) -> None:
    """A document that is nothing but images: their text is its text."""
    for path, page, digest in sink.rasters:
        with contextlib.suppress(Refused):  # an image that can't be opened has none
            picture = ocr.open_image(path.read_bytes())
            if min(picture.shape[:2]) < _SMALLEST or not sink.may_recognise():
                continue
            sink.recognised += 1
            sink.told.recognised.append(digest)
            if text := ocr.recognise(picture):
                sink.part(text + "\n\n", page)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
