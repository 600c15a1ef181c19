"""Debian's MediaWiki."""

from contextlib import ExitStack
from typing import Any

from bench.connectors_real.packages import require_packages
from bench.connectors_real.tool import EVERYONE, Move, Place, RealTool, ServerAddress
from tests.connectors.fakes.tool import ExpectedDocument
from tests.connectors.servers import mediawiki

_COUNT = 16  # an edit takes a tenth of a second


class MediaWikiTool(RealTool):
    """A wiki; what is deleted can be restored, with its old revisions and dates."""

    name = kind = "mediawiki"

    def __init__(self) -> None:
        super().__init__()
        self._pages: dict[str, tuple[int, str]] = {}  # page id and words, by title
        self._hidden: dict[str, tuple[int, str]] = {}
        self._count = 0

    def start(self, stack: ExitStack, place: Place) -> ServerAddress:
        require_packages(place, "mediawiki", "php-cli", "php-sqlite3")
        self._wiki = stack.enter_context(mediawiki.run_mediawiki(place.subfolder("mediawiki")))
        self.server = f"MediaWiki {self._wiki.version}"
        self._wiki.act("delete", title="Main Page")
        for _ in range(_COUNT):
            self.add()
        return ServerAddress(self._wiki.port)

    def config(self, url: str) -> dict[str, Any]:
        return {"apiUrl": f"{url}/api.php"}

    def credentials(self) -> dict[str, Any]:
        return {}

    def expected_documents(self) -> dict[str, ExpectedDocument]:
        return {
            f"page:{page_id}": ExpectedDocument(frozenset(words.split()), EVERYONE)
            for page_id, words in self._pages.values()
        }

    def add(self) -> set[str]:
        self._count += 1
        return self._write(f"Page {self._count} & söhne")

    def edit(self) -> set[str]:
        return self._write(self._first())

    def delete(self) -> set[str]:
        title = self._first()
        self._wiki.act("delete", title=title)
        return {f"page:{self._pages.pop(title)[0]}"}

    def rename(self) -> Move:
        title = self._first()
        self._wiki.act("move", **{"from": title, "to": f"{title} moved"}, noredirect="1")
        self._pages[f"{title} moved"] = self._pages.pop(title)
        page = f"page:{self._pages[f'{title} moved'][0]}"
        return Move(page, page)

    def hide(self) -> set[str]:
        title = self._first()
        self._wiki.act("delete", title=title)
        self._hidden[title] = self._pages.pop(title)
        return {f"page:{self._hidden[title][0]}"}

    def show(self) -> None:
        for title, (_, words) in self._hidden.items():
            self._wiki.act("undelete", title=title)
            self._pages[title] = (self._wiki.page_id(title), words)
        self._hidden.clear()

    def _first(self) -> str:
        return next(iter(self._pages))

    def _write(self, title: str) -> set[str]:
        words = f"{self.new_word()} {self.new_word()}"
        text = f"== Grain ==\ntext {words}"
        page_id = int(self._wiki.act("edit", title=title, text=text)["edit"]["pageid"])
        self._pages.pop(title, None)  # the last to be changed again
        self._pages[title] = (page_id, words)
        return {f"page:{page_id}"}
