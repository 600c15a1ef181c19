"""What every tool of this bench offers: a server that runs, a connector's settings for it, changes, and what it holds now.

Changes are made at the server itself, by its own protocol or files, never through the proxy. A change that the tool or its emulator does
not have raises NotOffered with the reason; the report shows it as skipped.
"""

from abc import ABC, abstractmethod
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from tests.connectors.fakes.tool import ExpectedDocument

EVERYONE = frozenset({"org:*"})
VIEWERS = ("ann@example.org", "bob@example.org", "eve@example.org")


class NotOffered(Exception):
    """The tool has no such thing; the message says why."""


@dataclass(frozen=True)
class Place:
    """Where servers keep their files: a temporary folder, and a cache of programs; and whether packages may be installed."""

    folder: Path
    cache: Path
    may_install: bool = False

    def below(self, name: str) -> "Place":
        """The same in a new folder."""
        return replace(self, folder=self.subfolder(name))

    def subfolder(self, name: str) -> Path:
        """A new folder that every user may enter: some servers run as another user."""
        path = self.folder / name
        path.mkdir()
        path.chmod(0o755)
        return path


@dataclass(frozen=True)
class Move:
    """A document that was renamed or moved: its ids before and after. The record must stay the same."""

    old_id: str
    new_id: str


@dataclass
class ServerAddress:
    """Where the server listens, for the proxy."""

    port: int
    protocol: Literal["http", "tcp"] = "http"
    host: str = field(default="127.0.0.1", init=False)

    @classmethod
    def of(cls, url: str) -> "ServerAddress":
        """The address of a server with this URL."""
        port = urlsplit(url).port
        assert port is not None
        return cls(port)


class RealTool(ABC):
    """A tool and its server. `name` is what `--only` takes, `kind` the type of the connector."""

    name = ""
    kind = ""
    acl: tuple[str, ...] | None = (
        None  # of the connector; without it the tool's own permissions are taken over
    )
    changes_are_counted = True  # whether the ids that changes return are all that a run must ingest
    keeps_record_when_renamed = True
    limited_requests = 1  # so many in a row must be limited until the connector's client gives up
    # Requests beyond those of a run in which nothing changed, after which a run is interrupted.
    interrupt_after = 4

    def __init__(self) -> None:
        self.server = ""  # name and version, known once it runs
        self._words = 0

    @abstractmethod
    def start(self, stack: ExitStack, place: Place) -> ServerAddress:
        """Start the server with some documents; ServerUnavailable if it can't be had."""

    @abstractmethod
    def config(self, url: str) -> dict[str, Any]:
        """The configuration of a connector that reaches the server at `url`."""

    @abstractmethod
    def credentials(self) -> dict[str, Any]:
        """Its credentials."""

    @abstractmethod
    def expected_documents(self) -> dict[str, ExpectedDocument]:
        """Every document that should be in the base, by its id."""

    @abstractmethod
    def add(self) -> set[str]:
        """Add a document; the ids of documents that are new or changed."""

    def edit(self) -> set[str]:
        """Change a document; the ids of documents that are new or changed."""
        raise NotOffered("documents never change")

    def delete(self) -> set[str]:
        """Delete a document; the ids of those that are gone."""
        raise NotOffered("nothing is deleted")

    def rename(self) -> Move:
        """Rename or move a document that did not change since the last run."""
        raise NotOffered("documents have no names that change")

    def change_permission(self) -> None:
        """Change who may see some documents."""
        raise NotOffered("it has no permissions that could be taken over")

    def hide(self) -> set[str]:
        """Hide documents from the connector; their ids."""
        raise NotOffered("nothing can be hidden")

    def show(self) -> None:
        """Show them again, with their old dates where the tool can do that."""
        raise NotOffered("nothing can be hidden")

    def end_change(self) -> None:  # noqa: B027
        """Called after changes and before a run."""

    def new_word(self) -> str:
        """A word that no other document has."""
        self._words += 1
        return f"w{self._words}x"


class FileTool(RealTool):
    """A place with files. Subclasses write, remove and move them at the server."""

    count = 24
    pictures = 0  # files that are not followed, named before most of the others
    interrupt_after = 6  # four files are looked up, and the first is being read

    def __init__(self) -> None:
        super().__init__()
        self.files: dict[str, str] = {}
        self.unchanged: set[str] = set()  # since the last run
        self.hidden: dict[str, str] = {}
        self._numbers = 0

    @abstractmethod
    def write(self, path: str, text: str) -> None:
        """Create or replace a file."""

    @abstractmethod
    def remove(self, path: str) -> None:
        """Delete a file."""

    @abstractmethod
    def move(self, old: str, new: str) -> None:
        """Move a file."""

    def take_away(self, path: str) -> None:
        """Hide a file."""
        self.remove(path)

    def put_back(self, path: str, text: str) -> None:
        """Show a hidden file again."""
        self.write(path, text)

    def expected_documents(self) -> dict[str, ExpectedDocument]:
        return {
            f"file:{path}": ExpectedDocument(frozenset(text.split()[1:]), EVERYONE)
            for path, text in self.files.items()
        }

    def fill(self) -> None:
        """Write the files that are there from the start, and a few that are not followed."""
        self.write("picture.png", "pixels")
        for number in range(self.pictures):
            self.write(f"album/{number}.png", "pixels")
        for _ in range(self.count):
            self.add()
        self.end_change()

    def add(self) -> set[str]:
        self._numbers += 1
        number = self._numbers
        folder = ("", "guides/", "guides/dé ep/")[number % 3]
        name = f"odd #{number} +50% ~'q'" if number % 5 == 0 else f"file {number}"
        return self._put(f"{folder}{name}.{('md', 'txt')[number % 2]}")

    def edit(self) -> set[str]:
        return self._put(sorted(self.unchanged)[0])

    def delete(self) -> set[str]:
        path = sorted(self.unchanged)[0]
        self.remove(path)
        self._forget(path)
        return {f"file:{path}"}

    def rename(self) -> Move:
        old = sorted(self.unchanged)[0]
        new = f"moved & kept/{old.rpartition('/')[2]}"
        self.move(old, new)
        self.files[new] = self.files[old]
        self._forget(old)
        return Move(f"file:{old}", f"file:{new}")

    def hide(self) -> set[str]:
        path = sorted(self.unchanged)[0]
        self.take_away(path)
        self.hidden[path] = self.files[path]
        self._forget(path)
        return {f"file:{path}"}

    def show(self) -> None:
        for path, text in self.hidden.items():
            self.put_back(path, text)
            self.files[path] = text
        self.hidden.clear()

    def end_change(self) -> None:
        self.unchanged = set(self.files)

    def _put(self, path: str) -> set[str]:
        text = f"text {self.new_word()} {self.new_word()}"
        self.write(path, text)
        self.files[path] = text
        self.unchanged.discard(path)
        return {f"file:{path}"}

    def _forget(self, path: str) -> None:
        del self.files[path]
        self.unchanged.discard(path)
