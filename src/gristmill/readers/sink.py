"""Where the readers of the child process put what they find: counted against the limits, and sent in small pieces.

A document that yields more than its limits allow is refused as a bomb. Files inside it get names of our own in the
scratch folder; the name that the document gives them is data.
"""

import base64
import hashlib
import io
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Literal, NoReturn

from gristmill.readers import sandbox, text_boxes
from gristmill.readers.document_metadata import DocumentMetadata
from gristmill.readers.libraries import images
from gristmill.readers.protocol import MAX_TEXT_LENGTH, Channel, Message
from gristmill.readers.text_boxes import TextBox
from gristmill.readers.text_format import FileFormat

_MAX_NAME_LENGTH = 200
_MAX_OCR_IMAGES = 50
PAGES_PER_TURN = 25  # then a document asks whether it may go on, or others should be read first
_OCR_MEDIA_TYPES = frozenset(
    ("image/png", "image/jpeg", "image/tiff", "image/bmp", "image/webp", "image/gif")
)
_MAX_CAPTION_LENGTH = 2_000
_MIN_SIDE, _MIN_AREA = 24, 2_500  # pixels
_CONTROL_CHARACTERS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufffe\uffff]")
_IMAGE_LINK = re.compile(r"!\[[^\]]*\]\([^)]*\)")
_MARKUP = str.maketrans("", "", "-|_#*>`~.")


class DocumentRefused(Exception):
    """The document can't be read; `code` is the reason."""

    def __init__(self, message: str, *, code: str) -> None:
        super().__init__(message)
        self.message, self.code = message, code


class Postponed(BaseException):
    """It is not the document's turn: it needs OCR, or others wait. Not an `Exception`: no reader may take it for an error."""

    def __init__(self, *, from_start: bool = False, needs_ocr: bool = False) -> None:
        super().__init__()
        self.from_start = from_start  # its next reader begins at the start again, because it needs all images
        self.needs_ocr = needs_ocr


@dataclass(frozen=True)
class ReadTask:
    """One document to read: where it is, its name, and its limits."""

    path: Path
    name: str
    media_type: str | None
    scratch: Path
    after_page: int
    memory: int
    ocr_memory: int
    cpu_seconds: int
    max_characters: int
    attachment_bytes: int
    max_attachments: int
    depth: int
    ocr: bool
    ocr_pages: int
    carried: dict[str, Any]  # what its last reader had counted when it was postponed


@dataclass
class ReportDraft:
    """The report so far; its fields are those of `results.ReadReport`."""

    warnings: list[str] = field(default_factory=list[str])
    pages_total: int | None = None
    pages_read: int | None = None
    kind: str = ""
    ocr_hashes: list[str] = field(default_factory=list[str])


class Sink:
    """Takes the results of a reader, in order."""

    def __init__(self, channel: Channel, task: ReadTask) -> None:
        self._channel, self.task = channel, task
        self.report = ReportDraft(warnings=list(task.carried.get("warnings", ())))
        self.format = FileFormat("")  # of the document, once it is detected
        self.characters = 0  # of the content so far
        # Of these, without spaces, markup and links to images; with what earlier readers of the document have read.
        self.text_length: int = task.carried.get("text_length", 0)
        self.attachment_count: int = task.carried.get("attachment_count", 0)
        self.image_count: int = task.carried.get("image_count", 0)
        self.ocr_count: int = task.carried.get("ocr_count", 0)
        self.doubtful_count: int = task.carried.get("doubtful_count", 0)
        self._bytes_written = 0
        self._asset_hashes: set[str] = set()
        self._file_prefix = f"{task.after_page}-"
        self._page = self._pages_begun = 0
        self._ocr_page: int | None = None  # for which OCR was granted
        # Images that OCR can read if the document has no other text.
        self.ocr_candidates: list[tuple[Path, int | None, str]] = []

    def add_text(self, text: str, page: int | None = None, boxes: Sequence[TextBox] = ()) -> None:
        """Append to the content; `boxes` are where `text` stands on the page, if it has nothing that is cleaned away."""
        raw, text = text, clean_text(text)
        if not text:
            return
        packed = text_boxes.pack(boxes) if boxes and page is not None and text == raw else b""
        self.characters += len(text)
        if self.characters > self.task.max_characters:
            refuse_bomb(f"it has more than {self.task.max_characters:,} characters of text")
        without_links = _IMAGE_LINK.sub("", text) if "![" in text else text
        self.text_length += len("".join(without_links.split()).translate(_MARKUP))
        for start in range(0, len(text), MAX_TEXT_LENGTH):
            piece = text[start : start + MAX_TEXT_LENGTH]
            is_last = start + MAX_TEXT_LENGTH >= len(text)
            message: Message = {"k": "part", "text": piece, "page": page, "last": is_last}
            if packed:
                message["boxes"] = base64.b64encode(packed).decode("ascii")
                packed = b"" if is_last else text_boxes.after(packed, len(piece))
            self._channel.send(message)
        self._extend_cpu_limit()

    def begin_page(self, page: int, total: int | None) -> None:
        """Begin page `page`: if it kills this process, the next child skips it."""
        self._page = page
        self._channel.send({"k": "at", "page": page, "of": total})
        self._extend_cpu_limit()

    def check_turn(self) -> None:
        """Called after `begin_page` by readers that can continue with this page. Raises Postponed when the document has had its
        turn and others wait: a long one does not keep a reader from the short ones."""
        self._pages_begun += 1
        if self._pages_begun > PAGES_PER_TURN:
            self._pages_begun = 1
            if not self._may_go_on({"k": "turn"}):
                raise Postponed

    def report_progress(self) -> None:
        """Show that work goes on, though it yields no text yet."""
        self._channel.send({"k": "alive"})
        self._extend_cpu_limit()

    def warn(self, code: str) -> None:
        """Add `code` to the warnings of the report, once."""
        if code not in self.report.warnings:
            self.report.warnings.append(code)

    def describe(self, metadata: DocumentMetadata) -> None:
        """Report what the document says of itself; call it before the first text. The first value of each field counts."""
        if fields := metadata.to_json():
            self._channel.send({"k": "document", "fields": fields})

    def add_attachment(self, name: str, data: bytes | Iterable[bytes], media_type: str | None = None) -> None:
        """Hand over a file inside the document."""
        if self.task.depth <= 0:
            self.warn("too_deep")
            return
        self.attachment_count += 1
        if self.attachment_count > self.task.max_attachments:
            refuse_bomb(f"it contains more than {self.task.max_attachments:,} files")
        path = self.task.scratch / f"{self._file_prefix}attachment-{self.attachment_count}"
        if self._write_file(path, data) == 0:
            path.unlink()
            self.attachment_count -= 1
            return
        name = safe_path(name) or f"embedded-{self.attachment_count}"
        self._channel.send({"k": "attachment", "name": name, "path": str(path), "type": media_type})
        self._extend_cpu_limit()

    def add_asset(
        self,
        data: bytes,
        media_type: str,
        *,
        page: int | None = None,
        start: int | None = None,
        kind: Literal["image", "table"] = "image",
        text: str = "",
    ) -> None:
        """Hand over an image or a table inside the document; of equal ones only the first."""
        digest = hashlib.sha256(data).hexdigest()
        if not data or digest in self._asset_hashes:
            return
        self._asset_hashes.add(digest)
        self.image_count += kind == "image"
        if len(self._asset_hashes) > self.task.max_attachments:
            refuse_bomb(f"it contains more than {self.task.max_attachments:,} images and tables")
        path = self.task.scratch / f"{self._file_prefix}asset-{len(self._asset_hashes)}"
        self._write_file(path, (data,))
        is_small = kind == "image" and _is_decoration(data)
        if media_type in _OCR_MEDIA_TYPES and len(self.ocr_candidates) < _MAX_OCR_IMAGES and not is_small:
            self.ocr_candidates.append((path, page, digest))
        message: Message = {"k": "asset", "hash": digest, "path": str(path), "type": media_type, "kind": kind}
        message |= {"page": page, "start": self.characters if start is None else start}
        self._channel.send(message | {"text": clean_text(text)[:_MAX_CAPTION_LENGTH], "small": is_small})
        self._extend_cpu_limit()

    def reserve_ocr(self, *, from_start: bool = False) -> bool:
        """Ask for OCR of this page, or of a whole document; False when OCR is off or used up. Raises Postponed when it is not
        this document's turn: OCR takes much memory and a whole core."""
        if not self.task.ocr or self.ocr_count >= self.task.ocr_pages:
            return False
        if self._ocr_page is None or (self._ocr_page != self._page and not from_start):
            if not self._may_go_on({"k": "ocr"}):
                raise Postponed(from_start=from_start, needs_ocr=True)
            sandbox.limit_memory(self.task.ocr_memory)
            self._ocr_page = self._page
        self._extend_cpu_limit()
        return True

    def count_ocr(self, *, is_doubtful: bool) -> None:
        """Count a page or an image whose text was recognised, and whether that text is probably wrong."""
        self.ocr_count += 1
        self.doubtful_count += is_doubtful

    def _may_go_on(self, question: Message) -> bool:
        """Ask the parent whether this document may go on."""
        self._channel.send(question)
        reply = self._channel.receive()
        if reply is None:
            raise SystemExit(0)
        return reply["k"] != "stop"

    def carried(self, *, from_start: bool) -> dict[str, Any]:
        """What the next reader of this document has to know, if it does not begin at the start again."""
        if from_start:
            return {}
        return {
            "warnings": self.report.warnings,
            "text_length": self.text_length,
            "attachment_count": self.attachment_count,
            "image_count": self.image_count,
            "ocr_count": self.ocr_count,
            "doubtful_count": self.doubtful_count,
            "is_resumed": self.is_resumed,
        }

    @property
    def is_resumed(self) -> bool:
        """Whether pages were read before of which nothing is known here."""
        return bool(self.task.carried.get("is_resumed", self.task.after_page))

    def _write_file(self, path: Path, data: bytes | Iterable[bytes]) -> int:
        written = 0
        with path.open("wb") as file:
            for block in (data,) if isinstance(data, bytes) else data:
                written += file.write(block)
                self._bytes_written += len(block)
                if self._bytes_written > self.task.attachment_bytes:
                    refuse_bomb(f"its contents decompress to more than {self.task.attachment_bytes:,} bytes")
        return written

    def _extend_cpu_limit(self) -> None:
        sandbox.limit_cpu(self.task.cpu_seconds)


def _is_decoration(data: bytes) -> bool:
    """Whether an image is too small for information: an icon, a line, a dot. False for what can't be opened."""
    try:
        with images.open(io.BytesIO(data)) as image:
            width, height = image.size
    except Exception:  # Pillow raises errors of any type for a made-up image
        return False
    return min(width, height) < _MIN_SIDE or width * height < _MIN_AREA


def refuse_bomb(reason: str) -> NoReturn:
    """Refuse the document for the size of its contents."""
    raise DocumentRefused(f"It looks like a decompression bomb: {reason}.", code="bomb")


def refuse_encrypted() -> NoReturn:
    """Refuse a document that needs a password."""
    raise DocumentRefused("It is password-protected. Remove the password and add it again.", code="encrypted")


def clean_text(text: str) -> str:
    """`text` without what no database takes: control characters and lone surrogates."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if _CONTROL_CHARACTERS.search(text):
        text = _CONTROL_CHARACTERS.sub("", text)
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def safe_name(name: str) -> str:
    """The last part of an untrusted path, fit to be shown and to be a file name."""
    basename = (
        unicodedata.normalize("NFC", clean_text(name)).replace("\\", "/").rstrip("/").rpartition("/")[2]
    )
    safe = "".join(
        character for character in basename if unicodedata.category(character) not in ("Cc", "Cf", "Zl", "Zp")
    )
    safe = " ".join(safe.split()).strip(". ") or ""
    if len(safe) > _MAX_NAME_LENGTH:
        stem, dot, suffix = safe.rpartition(".")
        safe = stem[: _MAX_NAME_LENGTH - 20] + dot + suffix[:19] if dot else safe[:_MAX_NAME_LENGTH]
    return safe


def safe_path(path: str) -> str:
    """An untrusted path as a relative one that only leads downwards."""
    parts = (safe_name(part) for part in clean_text(path).replace("\\", "/").split("/"))
    return "/".join(part for part in parts if part)[-1000:]


def file_blocks(file: BinaryIO, size: int = 256 * 1024) -> Iterator[bytes]:
    """The rest of `file`, block by block."""
    while block := file.read(size):
        yield block
