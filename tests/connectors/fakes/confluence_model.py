"""The spaces and pages of a fake Confluence, and what tests do with them."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

from tests.connectors.fakes.atlassian import FakeAtlassian
from tests.connectors.fakes.tool import ExpectedDocument, words_in


@dataclass
class Content:
    """A page, a blog post, a comment, or a folder of pages."""

    id: int
    kind: str
    title: str
    text: str
    updated: datetime
    space: int
    parent: int | None = None  # the parent page, or the page that a comment is on
    version: int = 1
    restricted_to: list[str] = field(default_factory=list[str])  # accounts, or @groups
    files: dict[int, tuple[bytes, datetime]] = field(default_factory=dict[int, tuple[bytes, datetime]])
    on_file: int | None = None  # the attachment of the parent page that a comment is on


@dataclass
class Space:
    """A space and its readers."""

    id: int
    key: str
    readers: list[str]
    secret: bool = False


class ConfluenceModel(FakeAtlassian):
    """Two spaces with pages, blog posts and comments; `FakeConfluence` serves them. A restriction does not change a page."""

    shows_restrictions = False

    def __init__(self) -> None:
        super().__init__()
        self.spaces = [
            Space(self.new_id(), "HR", ["@devs", "d:4"]),
            Space(self.new_id(), "~ann", ["a:1", "@all"]),
        ]
        self.contents: list[Content] = []
        for _ in range(16):
            self.add()

    def add(self) -> None:
        space = self.spaces[len(self.contents) % len(self.spaces)]
        pages = [content for content in self.contents if content.space == space.id and content.kind == "page"]
        number = len(self.contents)
        if number % 5 == 4 and pages:
            self.add_comment(pages[number % len(pages)])
            return
        kind = "blogpost" if number % 7 == 6 else "page"
        parent = pages[number % len(pages)].id if pages and kind == "page" and number % 3 else None
        new_content = Content(
            self.new_id(),
            kind,
            f"Title {self.new_word()}",
            f"Text {self.new_word()}",
            self.now,
            space.id,
            parent,
        )
        self.contents.append(new_content)

    def add_comment(self, page: Content) -> Content:
        """Add a comment to a page."""
        comment = Content(
            self.new_id(), "comment", "", f"said {self.new_word()}", self.now, page.space, page.id
        )
        self.contents.append(comment)
        return comment

    def edit(self, pick: int) -> None:
        content = self.contents[pick % len(self.contents)]
        content.text = f"Text {self.new_word()}"
        if content.kind != "comment" and pick % 3 == 0:
            content.title = f"Title {self.new_word()}"
        content.version += 1
        content.updated = self.now

    def delete(self, pick: int) -> None:
        if len(self.contents) < 6:
            return
        commented_ids = {candidate.parent for candidate in self.contents if candidate.kind == "comment"}
        deletable = [
            candidate for candidate in self.contents if candidate.id not in commented_ids
        ]  # pages with comments stay until their comments are gone
        deleted = deletable[pick % len(deletable)]
        self.contents.remove(deleted)
        for content in self.contents:
            if content.parent == deleted.id:
                content.parent = deleted.parent

    def reveal(self, pick: int) -> None:
        super().reveal(pick)
        ids = {content.id for content in self.contents}
        # What was deleted meanwhile took its comments along, and left its pages to the space.
        self.contents = [
            content for content in self.contents if content.kind != "comment" or content.parent in ids
        ]
        for content in self.contents:
            content.parent = content.parent if content.parent in ids else None

    def change_permission(self, pick: int) -> None:
        group = self.groups["devs" if pick % 2 else "all"]
        group.remove("c:3") if "c:3" in group else group.append("c:3")

    def restrict(self, pick: int) -> None:
        pages = [content for content in self.contents if content.kind == "page"]
        page = pages[pick % len(pages)]
        page.restricted_to = [] if page.restricted_to else [("a:1", "@devs", "c:3")[pick % 3]]

    def expected_documents(self) -> dict[str, ExpectedDocument]:
        expected: dict[str, ExpectedDocument] = {}
        for content in self.contents:
            if content.kind == "folder":
                continue
            text = content.text if content.kind == "comment" else f"{content.title} {content.text}"
            expected[f"{content.kind}:{content.id}"] = ExpectedDocument(words_in(text), self._acl(content))
        return expected

    def _acl(self, content: Content) -> frozenset[str]:
        space = next(candidate for candidate in self.spaces if candidate.id == content.space)
        if space.secret:
            return frozenset()
        readers = self._members(space.readers)
        for above in self.chain(content):
            if above.restricted_to:
                members = self._members(above.restricted_to)
                readers = members if "*" in readers else readers & members
        if "*" in readers:
            return frozenset({"org:*"})
        return frozenset(
            f"user_email:{self.people[candidate]}" for candidate in readers if self.visible_email(candidate)
        )

    def visible_email(self, account: str) -> str:
        return self.people[account] if self.cloud else ""

    def _members(self, names: list[str]) -> set[str]:
        accounts: set[str] = set()
        for name in names:
            accounts |= set(self.groups[name[1:]]) if name.startswith("@") else {name}
        return accounts

    def chain(self, content: Content) -> Iterator[Content]:
        """A content and its ancestors."""
        current: Content | None = content
        while current is not None:
            yield current
            parent = current.parent
            current = next((candidate for candidate in self.contents if candidate.id == parent), None)
