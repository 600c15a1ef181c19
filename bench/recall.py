"""Words that reading loses: `uv run --group bench python -m bench.recall FOLDER [--all] [--types pdf,docx]`.

Every file of FOLDER that can be read is read through a pool, and its words are compared with what the file contains. That truth is
taken by another way than the readers': the texts of every XML part of Office and OpenDocument files (headers, notes, comments, charts
and text boxes included), PDFium's characters page by page, `striprtf`, `xlrd`, the parts of a mail, the elements of HTML.
Files by OCR, and formats without such another way, are left out and counted.

    recall      the share of the words of a file that are in its text, as often as there; a running line of a PDF counts once
    unreadable  files of which a piece is unreadable (few letters, or improbable ones) without a warning: there should be none
"""

import argparse
import asyncio
import contextlib
import re
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from bench.recall_truth import true_text
from gristmill.errors import GristmillError
from gristmill.readers import ReadLimits, ReadReport, TextPart
from gristmill.readers.formats.pdf_readability import is_unreadable
from gristmill.readers.pool import ReaderPool
from gristmill.readers.supervisor import read_file

_PIECE = 3_000  # characters
_CJK = "\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff"
_WORD = re.compile(f"[{_CJK}]|[^\\W_{_CJK}]+")


@dataclass
class FileRecall:
    """The words of one file."""

    path: Path
    words: int = 0
    missing: Counter[str] = field(default_factory=Counter[str])
    note: str = ""
    is_unreadable: bool = False

    @property
    def share(self) -> float:
        """Of its words, those that were read."""
        return 1 - self.missing.total() / max(1, self.words)


# ── what is read ─────────────────────────────────────────────────────────────────────────────────────────


def words_of(text: str) -> Counter[str]:
    """The words of a text without markup; single marks of Chinese count as words."""
    return Counter(_WORD.findall(text.casefold()))


def has_unreadable_piece(text: str) -> bool:
    """Whether a piece of the text, as long as a page, has characters that stand for no letter, or improbable ones."""
    return any(is_unreadable(text[start : start + _PIECE]) for start in range(0, len(text), _PIECE))


async def recall_of(pool: ReaderPool, path: Path) -> FileRecall:
    """Read a file, and compare its words."""
    result = FileRecall(path)
    try:
        truth = await asyncio.to_thread(true_text, path)
    except Exception as error:
        result.note = f"no truth: {error}"[:80]
        return result
    if truth is None:
        result.note = "no other way"
        return result
    texts: list[str] = []
    warnings: list[str] = []
    with tempfile.TemporaryDirectory() as scratch:
        results = read_file(
            pool, path, name=path.name, media_type=None, scratch=Path(scratch), limits=ReadLimits(ocr=False)
        )
        try:
            async with contextlib.aclosing(results) as stream:
                async for part in stream:
                    if isinstance(part, TextPart):
                        texts.append(part.text)
                    elif isinstance(part, ReadReport):
                        warnings = part.warnings
        except GristmillError as error:
            result.note = error.code
            return result
    text = "".join(texts)
    result.is_unreadable = has_unreadable_piece(text) and not warnings
    wanted = words_of(truth)
    result.words, result.missing = wanted.total(), wanted - words_of(text)
    result.note = ",".join(warnings)
    return result


def print_recall(results: list[FileRecall], show_all: bool) -> None:
    """The table, by type."""
    for result in sorted(results, key=lambda each: each.share):
        if show_all or (result.words and result.share < 0.97):
            lost = ", ".join(f"{word}×{count}" for word, count in result.missing.most_common(12))
            print(f"{result.share:.3f} of {result.words:6} {result.path} {result.note} | {lost}")
    print(f"\n{'type':6} {'files':>5} {'words':>8} {'recall':>7} {'mean of files':>14} {'unreadable':>10}")
    by_type: dict[str, list[FileRecall]] = {}
    for result in results:
        if result.words:
            by_type.setdefault(result.path.suffix.lower(), []).append(result)
    everything = [result for result in results if result.words]
    for kind, group in [*sorted(by_type.items()), ("all", everything)]:
        words, lost = sum(each.words for each in group), sum(each.missing.total() for each in group)
        mean = sum(each.share for each in group) / max(1, len(group))
        print(
            f"{kind:6} {len(group):5} {words:8,} {1 - lost / max(1, words):7.3f} {mean:14.3f}"
            f" {sum(each.is_unreadable for each in group):10}"
        )
    left_out = Counter(result.note for result in results if not result.words)
    print("left out:", dict(left_out))


async def main() -> None:
    """Read and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--all", action="store_true", help="show every file")
    parser.add_argument("--types", help="only these types, such as pdf,docx")
    options = parser.parse_args()
    paths = sorted(path for path in options.folder.rglob("*") if path.is_file())
    if options.types:
        wanted = {f".{name}" for name in options.types.split(",")}
        paths = [path for path in paths if path.suffix.lower() in wanted]
    async with ReaderPool(1) as pool:
        results = [await recall_of(pool, path) for path in paths]
    print_recall(results, options.all)


if __name__ == "__main__":
    asyncio.run(main())
