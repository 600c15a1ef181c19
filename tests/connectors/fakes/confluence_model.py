"""The spaces and pages of a fake Confluence, and what tests do with them."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

from tests.connectors.fakes.atlassian import FakeAtlassian
from tests.connectors.fakes.tool import ExpectedDocument, words_in


@dataclass
class Content:
    """A page, a blog post or a comment."""

    id: int
    kind: str
    title: str
    text: str
    updated: datetime
    space: int
    parent: int | None = None  # the page above, or the one that is commented
    version: int = 1
    restricted: list[str] = field(default_factory=list[str])  # accounts, or @groups
    files: dict[int, tuple[bytes, datetime]] = field(default_factory=dict[int, tuple[bytes, datetime]])


@dataclass
class Space:
    """A space, and whom it is open to."""

    id: int
    key: str
    readers: list[str]
    secret: bool = False


class ConfluenceModel(FakeAtlassian):
    """Two spaces with pages, blog posts and comments; `FakeConfluence` serves them."""

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
        pages = [one for one in self.contents if one.space == space.id and one.kind == "page"]
        number = len(self.contents)
        if number % 5 == 4 and pages:
            self.add_comment(pages[number % len(pages)])
            return
        kind = "blogpost" if number % 7 == 6 else "page"
        parent = pages[number % len(pages)].id if pages and kind == "page" and number % 3 else None
        made = Content(
            self.new_id(),
            kind,
            f"Title {self.new_word()}",
            f"Text {self.new_word()}",
            self.now,
            space.id,
            parent,
        )
        self.contents.append(made)

    def add_comment(self, page: Content) -> Content:
        """A comment on a page."""
        made = Content(self.new_id(), "comment", "", f"said {self.new_word()}", self.now, page.space, page.id)
        self.contents.append(made)
        return made

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
        said = {one.parent for one in self.contents if one.kind == "comment"}
        alone = [
            one for one in self.contents if one.id not in said
        ]  # pages with comments stay until their comments are gone
        gone = alone[pick % len(alone)]
        self.contents.remove(gone)
        for content in self.contents:
            if content.parent == gone.id:
                content.parent = gone.parent

    def change_permission(self, pick: int) -> None:
        group = self.groups["devs" if pick % 2 else "all"]
        group.remove("c:3") if "c:3" in group else group.append("c:3")

    def expected_documents(self) -> dict[str, ExpectedDocument]:
        expected: dict[str, ExpectedDocument] = {}
        for content in self.contents:
            text = content.text if content.kind == "comment" else f"{content.title} {content.text}"
            expected[f"{content.kind}:{content.id}"] = ExpectedDocument(words_in(text), self._acl(content))
        return expected

    def _acl(self, content: Content) -> frozenset[str]:
        space = next(one for one in self.spaces if one.id == content.space)
        if space.secret:
            return frozenset()
        let_in = self._members(space.readers)
        for above in self.chain(content):
            if above.restricted:
                held = self._members(above.restricted)
                let_in = held if "*" in let_in else let_in & held
        if "*" in let_in:
            return frozenset({"org:*"})
        return frozenset(f"user_email:{self.people[one]}" for one in let_in if self.visible_email(one))

    def visible_email(self, account: str) -> str:
        return self.people[account] if self.cloud else ""

    def _members(self, named: list[str]) -> set[str]:
        found: set[str] = set()
        for name in named:
            found |= set(self.groups[name[1:]]) if name.startswith("@") else {name}
        return found

    def chain(self, content: Content) -> Iterator[Content]:
        """A content, and all that it lies in."""
        at: Content | None = content
        while at is not None:
            yield at
            parent = at.parent
            at = next((one for one in self.contents if one.id == parent), None)
