"""Doubles of our own, for tools without a server or a whole emulator here; written from the published descriptions of their APIs."""

from contextlib import ExitStack
from typing import Any

from bench.connectors_real.tool import Move, NotOffered, Place, RealTool, ServerAddress
from tests.connectors.fakes.drives import FakeDrives, FakeGoogleDrive, FakeGraph
from tests.connectors.fakes.linear import FakeLinear
from tests.connectors.fakes.notion import FakeNotion
from tests.connectors.fakes.tool import ExpectedDocument, FakeTool, serve_fake

_COUNT = 10  # documents on top of those that a double has from the start


class DoubleTool(RealTool):
    """A double. Which document it changes depends on a number."""

    changes_are_counted = False  # some changes of a double concern more than it expects, such as a path
    fake_class: type[FakeTool]

    def __init__(self) -> None:
        super().__init__()
        self.server = "double of our own"
        self.kind = self.fake_class.kind
        self._pick = 0
        self._before: dict[str, Any] | None = None

    def start(self, stack: ExitStack, place: Place) -> ServerAddress:
        del place
        self.fake = stack.enter_context(serve_fake(self.fake_class()))
        self.fake.page_size = 100
        for _ in range(_COUNT):
            self.fake.add()
        assert self.fake.site is not None
        return ServerAddress(int(self.fake.site.url.rpartition(":")[2]))

    def config(self, url: str) -> dict[str, Any]:
        assert self.fake.site is not None
        self.fake.site.url = url  # what it links to goes through the proxy too
        return self.fake.config()

    def credentials(self) -> dict[str, Any]:
        return self.fake.credentials()

    def expected_documents(self) -> dict[str, ExpectedDocument]:
        return self.fake.expected_documents()

    def add(self) -> set[str]:
        before = set(self.expected_documents())
        self.fake.add()
        return set(self.expected_documents()) - before

    def edit(self) -> set[str]:
        return self._try("edit")

    def delete(self) -> set[str]:
        return self._try("delete")

    def rename(self) -> Move:
        raise NotOffered("its documents are known by ids, and the double has no renames")

    def change_permission(self) -> None:
        before = _readers(self.expected_documents())
        for _ in range(20):
            self._pick += 1
            self.fake.change_permission(self._pick)
            if _readers(self.expected_documents()) != before:
                return
        raise NotOffered("its API shows no permissions")

    def hide(self) -> set[str]:
        self._before = self.fake.snapshot()
        return self.delete()

    def show(self) -> None:
        assert self._before is not None
        self.fake.restore(self._before)

    def end_change(self) -> None:
        self.fake.advance_clock(300)  # Notion's times are rounded: pages count as stable after two minutes

    def _try(self, change: str) -> set[str]:
        """Change documents until one differs; the ids of those that do."""
        before = self.expected_documents()
        for _ in range(20):
            self._pick += 1
            getattr(self.fake, change)(self._pick)
            now = self.expected_documents()
            if changed := {key for key in {*before, *now} if before.get(key) != now.get(key)}:
                return changed
        raise AssertionError(f"{change} changes nothing")


def _readers(documents: dict[str, ExpectedDocument]) -> dict[str, frozenset[str]]:
    return {key: document.acl for key, document in documents.items()}


class DrivesDouble(DoubleTool):
    """Drives, whose files can be renamed."""

    def rename(self) -> Move:
        assert isinstance(self.fake, FakeDrives)
        file = self.fake.followed()[0]
        file.name, file.modified = f"renamed {file.name}", self.fake.stamp()
        file.version += 1
        key = f"file:{file.drive}:{file.id}"
        return Move(key, key)


class GoogleDriveDouble(DrivesDouble):
    """Google Drive with permissions and a shared drive, which the emulator lacks."""

    name, fake_class = "google-drive-double", FakeGoogleDrive


class GraphDouble(DrivesDouble):
    """SharePoint and OneDrive: the emulator's Microsoft Graph has no drives."""

    name, fake_class = "sharepoint", FakeGraph


class NotionDouble(DoubleTool):
    """Notion."""

    name, fake_class = "notion", FakeNotion


class LinearDouble(DoubleTool):
    """Linear: the emulator's schema has no trash."""

    name, fake_class = "linear", FakeLinear
