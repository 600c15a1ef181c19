"""Where a reader puts what it finds: counted against the document's limits, sent on in bounded pieces.

A document that gives more than its limits allow is a bomb, and is refused by that name. Files inside it get names of
our own in the scratch folder; the name that the document gives them is data.
"""

import hashlib
import io
import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Literal, NoReturn

from gristmill.ingest.readers import confine
from gristmill.ingest.readers.untyped import images
from gristmill.ingest.readers.wire import PIECE, Line, Message

_LONGEST_NAME = 200
_MOST_RASTERS = 50
_RASTER = frozenset(("image/png", "image/jpeg", "image/tiff", "image/bmp", "image/webp", "image/gif"))
_LONGEST_CAPTION = 2_000
_LEAST_SIDE, _LEAST_AREA = 24, 2_500  # pixels
_SAMPLE = 20_000
_UNSEEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufffe\uffff]")
_IMAGE_LINK = re.compile(r"!\[[^\]]*\]\([^)]*\)")
_NOTHING = re.compile(r"[\s\-|_#*>`~.]+")


class Refused(Exception):
    """The document can't be read, and `code` says why."""

    def __init__(self, message: str, *, code: str) -> None:
        super().__init__(message)
        self.message, self.code = message, code


@dataclass(frozen=True)
class Task:
    """One document to read: where it is, what it is called, and what it may cost."""

    path: Path
    name: str
    media_type: str | None
    scratch: Path
    after_page: int
    memory: int
    ocr_memory: int
    cpu_seconds: int
    output: int
    embedded_bytes: int
    embedded_files: int
    depth: int
    ocr: bool
    ocr_pages: int


@dataclass
class Told:
    """What the report will say."""

    title: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    warnings: list[str] = field(default_factory=list[str])
    total: int | None = None
    read: int | None = None
    kind: str = ""
    recognised: list[str] = field(default_factory=list[str])


class Sink:
    """Takes a reader's results, in their order."""

    def __init__(self, line: Line, task: Task) -> None:
        self._line, self.task = line, task
        self.told = Told()
        self.characters = 0  # of the content so far
        self.letters = 0  # of these, what is neither space, mark-up nor a link to an image
        self.children = self.images = 0
        self.recognised = 0
        self.sample = ""
        self._bytes = 0
        self._hashes: set[str] = set()
        self._prefix = f"{task.after_page}-"
        self._may_recognise = False
        # Images that OCR could read, if nothing else can be.
        self.rasters: list[tuple[Path, int | None, str]] = []

    def part(self, text: str, page: int | None = None) -> None:
        """The next piece of the content."""
        text = clean(text)
        if not text:
            return
        self.characters += len(text)
        if self.characters > self.task.output:
            bomb(f"it gives more than {self.task.output:,} characters of text")
        self.letters += len(_NOTHING.sub("", _IMAGE_LINK.sub("", text)))
        if len(self.sample) < _SAMPLE:
            self.sample += text[: _SAMPLE - len(self.sample)]
        for start in range(0, len(text), PIECE):
            piece = text[start : start + PIECE]
            last = start + PIECE >= len(text)
            self._line.send({"k": "part", "text": piece, "page": page, "last": last})
        self._extend()

    def at(self, page: int, total: int | None) -> None:
        """Page `page` begins: if it kills us, it is the one to pass over."""
        self._line.send({"k": "at", "page": page, "of": total})
        self._extend()

    def alive(self) -> None:
        """Something went on that gives no text yet."""
        self._line.send({"k": "alive"})
        self._extend()

    def warn(self, code: str) -> None:
        """Tell `code` in the report, once."""
        if code not in self.told.warnings:
            self.told.warnings.append(code)

    def embedded(self, name: str, data: bytes | Iterable[bytes], media_type: str | None = None) -> None:
        """A document inside the document."""
        if self.task.depth <= 0:
            self.warn("too_deep")
            return
        self.children += 1
        if self.children > self.task.embedded_files:
            bomb(f"it holds more than {self.task.embedded_files:,} documents")
        path = self.task.scratch / f"{self._prefix}embedded-{self.children}"
        if self._store(path, data) == 0:
            path.unlink()
            self.children -= 1
            return
        name = safe_path(name) or f"embedded-{self.children}"
        self._line.send({"k": "embedded", "name": name, "path": str(path), "type": media_type})
        self._extend()

    def asset(
        self,
        data: bytes,
        media_type: str,
        *,
        page: int | None = None,
        start: int | None = None,
        kind: Literal["image", "table"] = "image",
        text: str = "",
    ) -> None:
        """An image or a table inside the document; equal ones are told once."""
        digest = hashlib.sha256(data).hexdigest()
        if not data or digest in self._hashes:
            return
        self._hashes.add(digest)
        self.images += kind == "image"
        if len(self._hashes) > self.task.embedded_files:
            bomb(f"it holds more than {self.task.embedded_files:,} images and tables")
        path = self.task.scratch / f"{self._prefix}asset-{len(self._hashes)}"
        self._store(path, (data,))
        small = kind == "image" and _is_decoration(data)
        if media_type in _RASTER and len(self.rasters) < _MOST_RASTERS and not small:
            self.rasters.append((path, page, digest))
        message: Message = {"k": "asset", "hash": digest, "path": str(path), "type": media_type, "kind": kind}
        message |= {"page": page, "start": self.characters if start is None else start}
        self._line.send(message | {"text": clean(text)[:_LONGEST_CAPTION], "small": small})
        self._extend()

    def may_recognise(self) -> bool:
        """Whether OCR is on; waits for a turn at it, because it takes much memory and all of a core."""
        if not self.task.ocr or self.recognised >= self.task.ocr_pages:
            return False
        if not self._may_recognise:
            self._line.send({"k": "ocr"})
            if self._line.receive() is None:
                raise SystemExit(0)
            confine.limit_memory(self.task.ocr_memory)
            self._may_recognise = True
        self._extend()
        return True

    def _store(self, path: Path, data: bytes | Iterable[bytes]) -> int:
        written = 0
        with path.open("wb") as file:
            for piece in (data,) if isinstance(data, bytes) else data:
                written += file.write(piece)
                self._bytes += len(piece)
                if self._bytes > self.task.embedded_bytes:
                    bomb(f"what it holds unfolds to more than {self.task.embedded_bytes:,} bytes")
        return written

    def _extend(self) -> None:
        confine.limit_cpu(self.task.cpu_seconds)


def _is_decoration(data: bytes) -> bool:
    """Whether an image is so small that it says nothing: an icon, a rule, a dot. What can't be opened is not known."""
    try:
        with images.open(io.BytesIO(data)) as opened:
            width, height = opened.size
    except Exception:  # whatever a library has to say about an image that somebody made up
        return False
    return min(width, height) < _LEAST_SIDE or width * height < _LEAST_AREA


def bomb(what: str) -> NoReturn:
    """Refuse the document for the size of what it unfolds to."""
    raise Refused(f"This looks like a bomb: {what}.", code="bomb")


def clean(text: str) -> str:
    """`text` without what no database and no reader takes: control characters, halves of characters."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if _UNSEEN.search(text):
        text = _UNSEEN.sub("", text)
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def safe_name(name: str) -> str:
    """The last part of a path that somebody else wrote, fit to be shown and to be a file's name."""
    last = unicodedata.normalize("NFC", clean(name)).replace("\\", "/").rstrip("/").rpartition("/")[2]
    shown = "".join(sign for sign in last if unicodedata.category(sign) not in ("Cc", "Cf", "Zl", "Zp"))
    shown = " ".join(shown.split()).strip(". ") or ""
    if len(shown) > _LONGEST_NAME:
        stem, dot, ending = shown.rpartition(".")
        shown = stem[: _LONGEST_NAME - 20] + dot + ending[:19] if dot else shown[:_LONGEST_NAME]
    return shown


def safe_path(path: str) -> str:
    """A path that somebody else wrote, as one that leads nowhere but down."""
    parts = (safe_name(part) for part in clean(path).replace("\\", "/").split("/"))
    return "/".join(part for part in parts if part)[-1000:]


def pieces(file: BinaryIO, size: int = 256 * 1024) -> Iterator[bytes]:
    """What `file` still holds, piece by piece."""
    while piece := file.read(size):
        yield piece
