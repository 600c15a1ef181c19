"""What one document contains besides text, collected while it is read: attachments, images, and what it says of itself.

A document that declares no language has the one that the beginning of its text is in, if that is certain. Pure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from gristmill.contents import ContentAsset, ContentAttachment
from gristmill.embedding.language_codes import LANGUAGES
from gristmill.ingest.chunk import TextChunk
from gristmill.ingest.task import EndOfContent, ReadTotals, ReadWindow
from gristmill.readers import TextPart
from gristmill.readers.document_metadata import language_code
from gristmill.search.languages import certain_language

_SAMPLE_CHARACTERS = 800
_CODES = {name: code for code, name in LANGUAGES.items()} | {
    "armenian": "hy",
    "basque": "eu",
    "irish": "ga",
    "nepali": "ne",
    "norwegian": "no",
    "yiddish": "yi",
}


def text_language(text: str) -> str | None:
    """The code of the language that `text` is in, if its script or its words say so."""
    language = certain_language(text) if text else None
    return None if language is None else _CODES.get(language)


def language_code_of(language: str) -> str:
    """The code of a language that is given by its name or code."""
    return _CODES.get(language.strip().lower()) or language_code(language)


class Findings:
    """What one document contains besides text, without duplicates, and what reading it took."""

    def __init__(
        self, attachments: Sequence[ContentAttachment] = (), assets: Sequence[ContentAsset] = ()
    ) -> None:
        self.attachments, self.assets = [*attachments], [*assets]
        self._fingerprints = {attachment.fingerprint for attachment in attachments}
        self._hashes = {asset.hash for asset in assets}
        self._new_attachments: list[ContentAttachment] = []
        self._new_assets: list[ContentAsset] = []
        self.warnings: Sequence[str] = ()
        self.inline: Sequence[bytes] = ()
        self.document: dict[str, Any] = {}
        self._sample = ""  # of the text, to detect its language by
        self.seconds = 0.0
        self.pages_reused = 0

    def describe(self, fields: Mapping[str, Any]) -> None:
        """Note what the document says of itself. The first value of each field counts."""
        self.document = {**fields, **self.document}

    def add_attachment(self, name: str, blob: bytes, size: int) -> None:
        """Add an attachment, unless it is a duplicate."""
        attachment = ContentAttachment(len(self.attachments) + 1, name, blob, size)
        if attachment.fingerprint not in self._fingerprints:
            self._fingerprints.add(attachment.fingerprint)
            self.attachments.append(attachment)
            self._new_attachments.append(attachment)

    def add_asset(self, asset: ContentAsset) -> None:
        """Number and add an image or a table, unless it is a duplicate."""
        if asset.hash not in self._hashes:
            self._hashes.add(asset.hash)
            numbered = replace(asset, number=len(self.assets) + 1)
            self.assets.append(numbered)
            self._new_assets.append(numbered)

    def window(
        self, parts: Sequence[TextPart], chunks: Sequence[TextChunk], share: float, *, is_last: bool = False
    ) -> ReadWindow:
        """The next window, with what was found since the one before."""
        attachments, self._new_attachments = self._new_attachments, []
        assets, self._new_assets = self._new_assets, []
        totals = ReadTotals(self.seconds, self.pages_reused)
        for part in parts:
            if len(self._sample) < _SAMPLE_CHARACTERS:
                self._sample += part.text[: _SAMPLE_CHARACTERS - len(self._sample)]
        end = None
        if is_last:
            if "language" not in self.document and (language := text_language(self._sample)):
                self.document = {**self.document, "language": language}
            everything = tuple(self.attachments), tuple(self.assets)
            end = EndOfContent(tuple(self.warnings), tuple(self.inline), *everything)
        return ReadWindow(
            parts, chunks, share, tuple(attachments), tuple(assets), totals, self.document, end=end
        )
