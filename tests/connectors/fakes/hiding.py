"""Finds what a change took out of the lists and dicts of a fake, so that it can be put back as it was."""

from collections.abc import Generator
from dataclasses import dataclass, is_dataclass
from typing import Any, cast

Container = dict[Any, Any] | list[Any]


@dataclass(frozen=True)
class TakenEntry:
    """An entry that was taken out of a list or a dict; `place` is its index or its key."""

    container: Container
    place: Any
    entry: Any

    def put_back(self) -> None:
        """Put the entry back where it was."""
        if isinstance(self.container, dict):
            self.container.setdefault(self.place, self.entry)
        else:
            self.container.insert(self.place, self.entry)


def containers_in(value: object) -> Generator[Container]:
    """The lists and dicts within a value, which may be those of dataclasses."""
    entries: list[Any] = []
    if isinstance(value, list | dict):
        container = cast("Container", value)
        yield container
        entries = list(container.values()) if isinstance(container, dict) else container
    elif is_dataclass(value):
        entries = list(vars(value).values())
    for entry in entries:
        yield from containers_in(entry)


def find_taken(container: Container, before: Container) -> list[TakenEntry]:
    """What a list or dict had before and has no longer."""
    if isinstance(container, dict) and isinstance(before, dict):
        return [TakenEntry(container, key, before[key]) for key in before if key not in container]
    kept = {id(entry) for entry in container}
    return [
        TakenEntry(container, place, entry) for place, entry in enumerate(before) if id(entry) not in kept
    ]
