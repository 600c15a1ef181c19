"""The base of all fake tools: an HTTP server with state, which pages, limits, changes between pages and fails on demand.

Each tool has a subclass of `FakeTool` with its routes. Every text is made of unique words (`w12x`), so that what is
searchable can be compared with the tool, word by word. A fake has a clock of its own.
"""

import copy
import json
import os
import re
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

import pytest

from tests.connectors.fakes.hiding import TakenEntry, containers_in, find_taken
from tests.sources.site import Site, SiteRequest, SiteResponse, serve

SECRET = "s3cret-token-of-the-tool"
WORD = re.compile(r"\bw\d+x\b")
_NOT_CONTENT = {
    *("now", "calls", "rules", "errors", "routes", "lock", "site", "_word_count", "_last_id"),
    *("hidden", "former_ids"),
}


class FakeError(Exception):
    """The fake answers with a status."""

    def __init__(self, status: int, body: object = None, **headers: str) -> None:
        super().__init__(status)
        self.status, self.body, self.headers = status, body, headers


@dataclass(frozen=True)
class FakeCall:
    """A parsed request."""

    method: str
    path: str
    params: Mapping[str, str]
    headers: Mapping[str, str]
    body: Any

    def require_only(self, *names: str) -> Mapping[str, str]:
        """The parameters, none of which may be unknown."""
        unknown = set(self.params) - set(names)
        assert not unknown, f"{self.path} takes no {unknown}"
        return self.params


@dataclass
class FakeRule:
    """An action for matching requests: it runs `times` times, after `after` requests."""

    matches: Callable[[FakeCall], bool]
    act: Callable[[], SiteResponse | None]
    after: int = 0
    times: int = 1


@dataclass
class ExpectedDocument:
    """The expected words and readers of a document."""

    words: frozenset[str]
    acl: frozenset[str]


Route = Callable[..., Any]
AnyFakeTool = TypeVar("AnyFakeTool", bound="FakeTool")


class FakeTool:
    """Base of all fakes. `page_size` is how many rows a page has at most.

    What a tool does not have, it declares; the contract then says what holds in its place:

        has_permissions     whether it says who may see what; else everyone sees everything
        reads_at_once       whether one request reads all documents: a feed, or the pack of a git repository
        keeps_deleted       whether documents that it no longer names stay in a base: a feed names only its newest entries
        shows_restrictions  whether a run notices that a document got other readers; else the permissions have to be read
        requests_each       how many requests read one document
        tries               how often a request is sent by the tool's own client, before we see that it was refused
    """

    kind = ""
    page_size = 4
    has_permissions = True
    reads_at_once = False
    keeps_deleted = False
    shows_restrictions = True
    requests_each = 1
    tries = 1

    def __init__(self) -> None:
        self.now = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
        self.calls: list[FakeCall] = []
        self.rules: list[FakeRule] = []
        self.errors: list[BaseException] = []
        self.routes: list[tuple[str, re.Pattern[str], Route]] = []
        self.lock = threading.RLock()
        self.site: Site | None = None
        self.hidden: list[list[TakenEntry]] = []  # what `hide` took away, document by document
        self.former_ids: set[str] = (
            set()
        )  # documents that stay in a base though the tool no longer names them
        self._word_count = 0
        self._last_id = 1000

    # ── for tests ────────────────────────────────────────────────────────────────────────────────────────

    def config(self) -> dict[str, Any]:
        """The configuration of a connector that reads the whole tool."""
        raise NotImplementedError

    def credentials(self) -> dict[str, Any]:
        """Its credentials."""
        return {"token": SECRET}

    def expected_documents(self) -> dict[str, ExpectedDocument]:
        """Every document that should be in a base, by its source id."""
        raise NotImplementedError

    def add(self) -> None:
        """Add a document."""
        raise NotImplementedError

    def edit(self, pick: int) -> None:
        """Change a document; `pick` chooses which."""
        raise NotImplementedError

    def delete(self, pick: int) -> None:
        """Delete a document; `pick` chooses which."""
        raise NotImplementedError

    def change_permission(self, pick: int) -> None:
        """Change a permission, or who is in a group; `pick` chooses which. Nothing happens in a tool without permissions."""
        assert not self.has_permissions

    def restrict(self, pick: int) -> None:
        """Change who may read a single document."""
        self.change_permission(pick)

    def move_document(self, pick: int) -> None:
        """Rename a document without changing it, in tools that name documents by their paths; in others, edits move them."""
        self.edit(pick)

    def hide(self, pick: int) -> None:
        """Take a document out of sight of the credentials until `reveal`: to them it looks deleted."""
        containers = [(container, copy.copy(container)) for container in containers_in(self.contained())]
        self.delete(
            pick * 2
        )  # tools with a trash put documents with an odd number there, where they leave a trace
        taken = [part for container, before in containers for part in find_taken(container, before)]
        if taken:
            self.hidden.append(taken)

    def reveal(self, pick: int) -> None:
        """Let the credentials see a hidden document again, as it was and with its old date."""
        if self.hidden:
            for part in self.hidden.pop(pick % len(self.hidden)):
                part.put_back()

    def edit_hidden(self, pick: int) -> None:
        """Change a hidden document, in tools that list documents by their time of change."""
        for part in self.hidden[pick % len(self.hidden)] if self.hidden else ():
            if isinstance(getattr(part.entry, "updated", None), datetime):
                part.entry.text, part.entry.updated = f"Text {self.new_word()}", self.now

    def known_emails(self) -> set[str]:
        """The addresses of people who see something in the tool."""
        entries = set[str]().union(*(document.acl for document in self.expected_documents().values()))
        return {entry.partition(":")[2] for entry in entries if entry.startswith("user_email:")}

    def principals_of(self, email: str) -> set[str]:
        """The entries of access lists that admit a person."""
        return {"org:*", f"user_email:{email}"}

    def visible_ids(self, email: str) -> set[str]:
        """The source ids of the documents that the tool shows to a person."""
        principals = self.principals_of(email)
        return {key for key, document in self.expected_documents().items() if document.acl & principals}

    def is_detail(self, call: FakeCall) -> bool:
        """Whether a request reads a single document, beyond what a list returns."""
        raise NotImplementedError

    def detail_calls(self) -> list[str]:
        """All requests for single documents, in order."""
        return [
            f"{call.method} {call.path}?{call.params}{call.body}"
            for call in self.calls
            if self.is_detail(call)
        ]

    def contained(self) -> dict[str, Any]:
        """What the tool contains, by attribute."""
        return {name: value for name, value in vars(self).items() if name not in _NOT_CONTENT}

    def snapshot(self) -> dict[str, Any]:
        """A copy of what the tool contains, for `restore`."""
        return copy.deepcopy(self.contained())

    def restore(self, content: dict[str, Any]) -> None:
        """Let the tool contain what it did at a snapshot, with its old dates."""
        vars(self).update(copy.deepcopy(content))

    def new_word(self) -> str:
        """A word that was never used."""
        self._word_count += 1
        return f"w{self._word_count}x"

    def new_id(self) -> int:
        """A number that was never used."""
        self._last_id += 7
        return self._last_id

    def advance_clock(self, seconds: float = 10) -> None:
        """Let time pass in the tool."""
        self.now += timedelta(seconds=seconds)

    def add_rule(
        self,
        matches: Callable[[FakeCall], bool],
        act: Callable[[], SiteResponse | None],
        *,
        after: int = 0,
        times: int = 1,
    ) -> None:
        """Run `act` when a request matches; its result is the response, or None for the usual response."""
        with self.lock:
            self.rules.append(FakeRule(matches, act, after, times))

    # ── serving ──────────────────────────────────────────────────────────────────────────────────────────

    def route(self, method: str, pattern: str, route: Route) -> None:
        """Serve `pattern`, in which `{name}` is a part of the path, by `route(call, name=…)`."""
        expression = re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", pattern))
        self.routes.append((method, expression, route))

    def answer(self, request: SiteRequest) -> SiteResponse:
        """The response to a request."""
        url = urlsplit(request.path)
        params = dict(parse_qsl(url.query, keep_blank_values=True))
        headers = {name.lower(): value for name, value in request.headers.items()}
        is_git = headers.get("content-type", "").startswith("application/x-git")
        body = (request.body if is_git else json.loads(request.body)) if request.body else None
        call = FakeCall(request.method, url.path, params, headers, body)
        with self.lock:
            self.calls.append(call)
            try:
                for rule in list(self.rules):
                    if rule.matches(call):
                        if rule.after:
                            rule.after -= 1
                            continue
                        rule.times -= 1
                        if rule.times <= 0:
                            self.rules.remove(rule)
                        if (answer := rule.act()) is not None:
                            return answer
                return self._route(call)
            except FakeError as error_response:
                return self.respond(
                    error_response.body or {"message": "no"}, error_response.status, **error_response.headers
                )
            except BaseException as error:  # a mistake in the fake, or a request that no tool would accept
                self.errors.append(error)
                return self.respond({"message": repr(error)}, 418)

    def _route(self, call: FakeCall) -> SiteResponse:
        self.check_authorization(call)
        for method, pattern, route in self.routes:
            match = pattern.fullmatch(call.path)
            if match is not None and method == call.method:
                result = route(call, **{name: unquote(text) for name, text in match.groupdict().items()})
                return result if isinstance(result, SiteResponse) else self.respond(result)
        raise FakeError(404)

    def check_authorization(self, call: FakeCall) -> None:
        """Refuse requests without the token."""
        if call.headers.get("authorization") != f"Bearer {SECRET}":
            raise FakeError(
                401, {"message": f"Bad credentials {SECRET}"}
            )  # some tools repeat the token in their error

    def respond(self, body: object, status: int = 200, /, **headers: str) -> SiteResponse:
        """A JSON response with the tool's clock in its Date header."""
        header_fields = {name.replace("_", "-"): value for name, value in headers.items()}
        date = format_datetime(self.now, usegmt=True)
        return SiteResponse(
            status,
            json.dumps(body).encode(),
            {"Content-Type": "application/json", "Date": date, **header_fields},
        )

    def respond_page(
        self, call: FakeCall, rows: list[Any], show: Callable[[Any], Any] = lambda row: row
    ) -> SiteResponse:
        """A page by number, with the link to the next."""
        size = min(self.page_size, int(call.params.get("per_page", 30)))
        page = int(call.params.get("page", 1))
        page_rows = rows[(page - 1) * size : page * size]
        headers: dict[str, str] = {}
        if page * size < len(rows):
            last = -(-len(rows) // size)
            headers["Link"] = ", ".join(
                f'<{self.page_url(call, page=str(number))}>; rel="{rel}"'
                for rel, number in (("next", page + 1), ("last", last))
            )
        return self.respond([show(row) for row in page_rows], **headers)

    def page_url(self, call: FakeCall, **params: str) -> str:
        """The address of a request with other parameters."""
        assert self.site is not None
        query = "&".join(f"{name}={value}" for name, value in {**call.params, **params}.items())
        return f"{self.site.url}{call.path}?{query}"


def rate_limited(fake: FakeTool, seconds: int = 3600, status: int = 429) -> Callable[[], SiteResponse]:
    """An action that responds with a rate limit."""
    return lambda: fake.respond({"message": "slow down"}, status, Retry_After=str(seconds))


def cut_off() -> SiteResponse:
    """A response that ends before all of it was sent."""
    return SiteResponse(200, b"{", {"Content-Length": "100", "Connection": "close"})


def failing(fake: FakeTool, status: int = 500) -> Callable[[], SiteResponse]:
    """An action that responds with an error."""
    return lambda: fake.respond({"message": "no"}, status)


def words_in(text: str) -> frozenset[str]:
    """The unique words of a text."""
    return frozenset(WORD.findall(text))


@contextmanager
def serve_fake(fake: AnyFakeTool) -> Generator[AnyFakeTool]:
    """Serve a fake until the test is over; a request that no tool would accept fails the test."""
    with serve() as site:
        site.fallback = fake.answer
        fake.site = site
        yield fake
    _record_calls(fake)
    for error in fake.errors:
        raise error


def fake_tool_fixture(kind: type[FakeTool]) -> Any:
    """A fixture for modules that test one kind of tool: `tool = fake_tool_fixture(FakeGitHub)`."""

    @pytest.fixture
    def tool() -> Generator[FakeTool]:
        with serve_fake(kind()) as fake:
            yield fake

    return tool


def _record_calls(fake: FakeTool) -> None:
    """Write the requests to RECORD_CALLS, for `bench.conformity`."""
    if folder := os.environ.get("RECORD_CALLS"):
        name = type(fake).__name__.removeprefix("Fake").lower()
        with (Path(folder) / f"{name}-{os.getpid()}.jsonl").open("a", encoding="utf-8") as file:
            for call in fake.calls:
                entry = {
                    "method": call.method,
                    "path": call.path,
                    "params": dict(call.params),
                    "body": None if isinstance(call.body, bytes) else call.body,
                }
                file.write(json.dumps(entry) + "\n")


@dataclass
class FakeComment:
    """A comment: a text with a unique word, and when it was written."""

    id: int
    text: str
    at: datetime
    by: str = "ann"
    more: dict[str, Any] = field(default_factory=dict[str, Any])
