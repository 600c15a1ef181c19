"""Kinds of work for tests of the job engine."""

from dataclasses import dataclass
from uuid import UUID

from gristmill.jobs import Work


@dataclass(frozen=True)
class Plain(Work):
    kind = "plain"

    n: int = 0


@dataclass(frozen=True)
class Keyed(Work):
    kind = "keyed"

    name: str
    about: UUID | None = None

    def key(self) -> str:
        return f"keyed:{self.name}"

    def subject(self) -> UUID | None:
        return self.about


@dataclass(frozen=True)
class Brittle(Work):
    kind = "brittle"
    attempts = 2
