"""Results of the readers over a folder of real files: `python -m bench.formats DIR [--all]`.

DIR contains MANIFEST.tsv (path, expect, note) with expect one of text, embedded, encrypted, corrupt, hostile. Every file is
read through the pool, as a worker would. The table shows how many expectations of each kind were met, and each that was not.
"""

import argparse
import asyncio
import contextlib
import csv
import resource
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from gristmill.errors import GristmillError
from gristmill.readers import (
    Asset,
    AttachedFile,
    DocumentFields,
    ReadLimits,
    ReadReport,
    TextPart,
)
from gristmill.readers.pool import ReaderPool
from gristmill.readers.supervisor import read_file


@dataclass
class FileOutcome:
    path: str
    expect: str
    characters: int = 0
    letters: int = 0
    children: int = 0
    assets: int = 0
    code: str = ""
    warnings: list[str] = field(default_factory=list[str])
    seconds: float = 0.0
    head: str = ""

    @property
    def meets_expectation(self) -> bool:
        match self.expect:
            case "text":
                return self.letters > 0 or "empty" in self.warnings
            case "embedded":
                return self.children + self.assets > 0
            case "encrypted":
                return self.code == "encrypted" or any(w.startswith("encrypted") for w in self.warnings)
            case "corrupt":
                return bool(self.code) or any(w.startswith(("damaged", "partial")) for w in self.warnings)
            case _:
                return self.code in (
                    "bomb",
                    "unsafe_xml",
                    "unsupported_type",
                    "corrupt",
                    "reader_timeout",
                ) or (self.code.startswith("reader_"))


async def outcome_of(pool: ReaderPool, path: Path, expect: str, name: str) -> FileOutcome:
    outcome = FileOutcome(name, expect)
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        results = read_file(
            pool, path, name=path.name, media_type=None, scratch=Path(scratch), limits=ReadLimits()
        )
        try:
            async with contextlib.aclosing(results) as stream:
                async for result in stream:
                    match result:
                        case TextPart(text):
                            outcome.characters += len(text)
                            outcome.letters += sum(character.isalnum() for character in text)
                            outcome.head += text[: max(0, 100 - len(outcome.head))]
                        case AttachedFile():
                            outcome.children += 1
                        case Asset():
                            outcome.assets += 1
                        case ReadReport(warnings=warnings):
                            outcome.warnings = warnings
                        case DocumentFields():
                            pass
        except GristmillError as error:
            outcome.code = error.code
            outcome.head = error.message
    outcome.seconds = time.monotonic() - started
    return outcome


def print_outcomes(outcomes: list[FileOutcome], show_all: bool) -> None:
    for outcome in outcomes:
        if show_all or not outcome.meets_expectation:
            label = "ok " if outcome.meets_expectation else "NOT"
            print(
                f"{label} {outcome.expect:9} {outcome.path}: {outcome.characters} characters, {outcome.children} documents,"
                f" {outcome.assets} assets, {outcome.code or '-'} {outcome.warnings} {outcome.seconds:.1f} s"
                f" {outcome.head[:100]!r}"
            )
    print(f"\n{'expect':10} {'files':>5} {'met':>5}")
    for expect in ("text", "embedded", "encrypted", "corrupt", "hostile"):
        matching = [outcome for outcome in outcomes if outcome.expect == expect]
        met_count = sum(outcome.meets_expectation for outcome in matching)
        print(
            f"{expect:10} {len(matching):5} {met_count:5}  {met_count / len(matching) if matching else 1:.1%}"
        )


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--all", action="store_true", help="show every file, not only those that failed")
    arguments = parser.parse_args()
    with (arguments.folder / "MANIFEST.tsv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    before = psutil.Process().memory_info().rss
    started = time.monotonic()
    async with ReaderPool(2) as pool:
        slots = asyncio.Semaphore(4)

        async def read_row(row: dict[str, str]) -> FileOutcome:
            async with slots:
                return await outcome_of(pool, arguments.folder / row["path"], row["expect"], row["path"])

        outcomes = await asyncio.gather(*(read_row(row) for row in rows))
    print_outcomes(list(outcomes), arguments.all)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(
        f"\n{len(outcomes)} files in {time.monotonic() - started:.1f} s; this process: {(peak - before) / 2**20:.0f} MiB more at its peak"
    )


if __name__ == "__main__":
    asyncio.run(main())
