"""Guesses the encoding of a text that doesn't declare it and is not UTF-8. The guess is seldom wrong.

a byte order mark, or zero bytes on one side     UTF-16, UTF-32
escape sequences                                 ISO-2022-JP
nearly UTF-8                                     UTF-8; the broken bytes are replaced
pairs of high bytes                              Chinese, Japanese, Korean: by the share of common characters
single high bytes                                by the letters of each script's words (charset-normalizer)
"""

import codecs
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gristmill.readers import text_format
from gristmill.readers.libraries import charset_normalizer

SAMPLE = 256 * 1024
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# One byte a letter; encodings of one script are next to each other, the more common first.
_SINGLE_BYTE_ENCODINGS = [
    "cp1252",
    "cp1250",
    "cp1251",
    "koi8_r",
    "cp866",
    "iso8859_5",
    "cp1253",
    "cp1254",
    "cp1255",
    "cp1256",
    "iso8859_6",
    "cp1257",
    "cp1258",
    "cp874",
]
# The bytes of Turkish letters in cp1254, and those that have another letter in cp1252.
_TURKISH_BYTES = frozenset(b"\xfd\xfe\xf0\xdd\xde\xd0\xfc\xdc\xf6\xd6\xe7\xc7\xe2\x91\x92\x93\x94\x96\x97")
_TURKISH_ONLY_BYTES = frozenset(b"\xfd\xfe\xf0")
_KANA = re.compile("[\u3040-\u30ff]")
_HAN = re.compile("[\u4e00-\u9fff]")
# A byte between letters, except those that are quotes, dashes and dots in Windows encodings.
_LETTER_INSIDE = re.compile(rb"(?<=[A-Za-z\x80-\xff])[\x80-\x84\x86-\x90\x98-\x9f](?=[A-Za-z\x80-\xff])")
_WESTERN_LETTERS = frozenset("äöüßéèêëàâçñáíóúîïôûùåæøÄÖÜÉÅÆØ")
_PUNCTUATION = re.compile("[\u3000-\u303f\uff00-\uff65\u2010-\u201f\u2026\u00b7]")


def detect_file_encoding(path: Path) -> tuple[str, bool]:
    """The encoding of the file's text, and whether that is a guess."""
    with path.open("rb") as file:
        head = file.read(SAMPLE)
    return detect_encoding(head)


def detect_encoding(head: bytes) -> tuple[str, bool]:
    """The encoding of a text that begins with `head`, and whether that is a guess."""
    for bom, encoding in _BOMS:
        if head.startswith(bom):
            return encoding, False
    if (encoding := text_format.wide_encoding(head)) is not None:
        return encoding, True
    if text_format.has_iso2022_escapes(head):
        return "iso2022_jp_2", True
    text = head.decode("utf-8", "replace")
    broken, non_ascii = text.count("\ufffd"), sum(character > "\x7f" for character in text)
    if non_ascii == 0 or broken * 10 < non_ascii or broken <= 1 < len(head) == SAMPLE:
        return "utf-8", broken > 0
    return _legacy_encoding(head), True


def _legacy_encoding(head: bytes) -> str:
    scores = {
        name: score
        for name, scorer in _SCORERS.items()
        if (score := _encoding_score(head, name, scorer)) > 0.8
    }
    if scores:
        return max(scores, key=lambda name: scores[name])
    high = [byte for byte in head if byte > 0x7F]
    if sum(byte in _TURKISH_BYTES for byte in high) > 0.95 * len(high) and (
        sum(byte in _TURKISH_ONLY_BYTES for byte in high) > 0.3 * len(high)
    ):
        return "cp1254"
    if (encoding := _hebrew_encoding(head, high) or _pre_windows_encoding(head, high)) is not None:
        return encoding
    guess: Any = charset_normalizer.from_bytes(head[:65_536], cp_isolation=_SINGLE_BYTE_ENCODINGS).best()
    if guess is not None:
        return str(guess.encoding)
    return "cp1252"


def _hebrew_encoding(head: bytes, high: list[int]) -> str | None:
    """cp1255 if the high bytes are Hebrew letters. Russian small letters have the same bytes, but need the last five
    too; Western words also have ASCII letters."""
    letters = sum(bytes((byte,)).isalpha() for byte in head)
    within = sum(0xE0 <= byte <= 0xFA for byte in high)
    return "cp1255" if len(high) >= 20 and within > 0.99 * len(high) and letters < 0.3 * len(high) else None


def _pre_windows_encoding(head: bytes, high: list[int]) -> str | None:
    """A DOS or Macintosh encoding if there are letters where Windows has quotes and dashes."""
    inside = len(_LETTER_INSIDE.findall(head))
    if inside < 2 or inside < 0.2 * len(high):
        return None
    counts = {
        name: sum(character in _WESTERN_LETTERS for character in bytes(high).decode(name))
        for name in ("cp850", "mac_roman")
    }
    best = max(counts, key=lambda name: counts[name])
    return best if counts[best] > 0.8 * len(high) else None


def _encoding_score(head: bytes, name: str, scorer: Callable[[str], float]) -> float:
    """How much the bytes look like ordinary text in encoding `name`; below 0 when they can't be decoded."""
    for cut in range(4):  # the sample may end inside a character
        try:
            text = head[: len(head) - cut].decode(name)
        except UnicodeDecodeError as error:
            if error.start < len(head) - 8:
                return -1.0
            continue
        return scorer("".join(character for character in text if character > "\x7f"))
    return -1.0


def _match_share(text: str, *patterns: re.Pattern[str]) -> float:
    return sum(len(pattern.findall(text)) for pattern in patterns) / (len(text) or 1)


def _common_character_share(text: str, encoding: str, first: int, last: int) -> float:
    """The share of characters whose first byte is in the range of the common ones in `encoding`."""
    common = 0
    for character in text:
        try:
            raw = character.encode(encoding)
        except UnicodeEncodeError:
            continue
        common += len(raw) == 2 and first <= raw[0] <= last
    return common / (len(text) or 1)


def _simplified_chinese_score(text: str) -> float:
    if _match_share(text, _KANA) > 0.1:  # Japanese has the same bytes
        return 0.0
    return _common_character_share(text, "gb2312", 0xB0, 0xD7) + _match_share(text, _PUNCTUATION)


def _traditional_chinese_score(text: str) -> float:
    return _common_character_share(text, "big5", 0xA4, 0xC6) + _match_share(text, _PUNCTUATION)


def _japanese_score(text: str) -> float:
    kana = _match_share(text, _KANA)
    return (
        kana + _common_character_share(text, "shift_jis", 0x88, 0x97) + _match_share(text, _PUNCTUATION)
        if kana > 0.1
        else 0.0
    )


def _korean_score(text: str) -> float:
    # The bytes of common Korean syllables are common Chinese characters too, but Chinese uses more of them.
    # Only some of the possible syllables are in use: Japanese bytes decode to the others.
    hangul = _common_character_share(text, "euc_kr", 0xB0, 0xC8)
    return hangul + _match_share(text, _PUNCTUATION) + 0.05 if _match_share(text, _HAN) < 0.1 else 0.0


_SCORERS: dict[str, Callable[[str], float]] = {
    "gb18030": _simplified_chinese_score,
    "big5hkscs": _traditional_chinese_score,
    "cp932": _japanese_score,
    "euc_jp": _japanese_score,
    "cp949": _korean_score,
}
