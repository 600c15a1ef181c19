"""Figures and requirements, as plain text or as markdown for docs/benchmarks.md."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Table:
    """One measurement: its title and method, and a row per engine or case."""

    title: str
    method: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def text(self) -> str:
        """For a terminal."""
        return "\n".join([self.title, f"  ({self.method})", *_align_columns(self)])


@dataclass(frozen=True)
class Requirement:
    """A requirement, with the figure that decides it."""

    text: str
    figure: str
    holds: bool


@dataclass
class BenchReport:
    """The results of a run."""

    machine: str
    tables: list[Table] = field(default_factory=list[Table])
    requirements: list[Requirement] = field(default_factory=list[Requirement])

    def check(self, text: str, figure: str, holds: bool) -> None:
        """Record whether a requirement holds."""
        self.requirements.append(Requirement(text, figure, holds))

    def add(self, title: str, method: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Record a table."""
        assert all(len(row) == len(columns) for row in rows), title
        self.tables.append(Table(title, method, columns, rows))

    @property
    def holds(self) -> bool:
        """Whether every checked requirement holds."""
        return all(requirement.holds for requirement in self.requirements)

    def text(self) -> str:
        """For a terminal."""
        parts = [self.machine]
        for table in self.tables:
            parts += ["", table.text()]
        if self.requirements:
            parts += ["", "Requirements"]
        for requirement in self.requirements:
            parts.append(
                f"  {'holds        ' if requirement.holds else 'DOES NOT HOLD'}  {requirement.text}: {requirement.figure}"
            )
        return "\n".join(parts)

    def markdown(self) -> str:
        """For docs/benchmarks.md."""
        parts = [f"Machine: {self.machine}."]
        for table in self.tables:
            parts += ["", f"### {table.title}", "", f"{table.method}", "", _row(table.columns)]
            parts.append("|" + "---|" + "---:|" * (len(table.columns) - 1))
            parts += [_row(row) for row in table.rows]
        if self.requirements:
            parts += ["", "### Requirements", "", "| requirement | measured | |", "|---|---|---|"]
        parts += [
            _row(
                [requirement.text, requirement.figure, "holds" if requirement.holds else "**does not hold**"]
            )
            for requirement in self.requirements
        ]
        return "\n".join(parts)


def spread(values: Sequence[float], digits: int = 0) -> str:
    """The median, with minimum and maximum in brackets."""
    middle, smallest, largest = statistics.median(values), min(values), max(values)
    if len(values) == 1:
        return f"{middle:,.{digits}f}"
    return f"{middle:,.{digits}f} ({smallest:,.{digits}f}–{largest:,.{digits}f})"


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` of the values lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _align_columns(table: Table) -> list[str]:
    rows = [table.columns, *table.rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(table.columns))]
    return [
        "  "
        + "  ".join(
            cell.ljust(width) if n == 0 else cell.rjust(width)
            for n, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
