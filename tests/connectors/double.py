"""A tool on a loopback port that keeps state: it pages, limits, changes between pages and fails when it is told to.

A double is a `Double` with routes; `tests/connectors/doubles/` has one a tool. Every text it holds is made of marks (`w12x`),
each used once, so that what is searchable can be compared with what the tool holds, word by word. Its clock is its own.
"""

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

from tests.sources.site import Answer, Asked, Site, serve

SECRET = "s3cret-token-that-nobody-may-see"
MARK = re.compile(r"\bw\d+x\b")


class Refused(Exception):
    """The double answers with a status."""

    def __init__(self, status: int, body: object = None, **headers: str) -> None:
        super().__init__(status)
        self.status, self.body, self.headers = status, body, headers


@dataclass(frozen=True)
class Call:
    """A request, taken apart."""

    method: str
    path: str
    params: Mapping[str, str]
    headers: Mapping[str, str]
    body: Any

    def only(self, *names: str) -> Mapping[str, str]:
        """The parameters, none of which may be unknown."""
        unknown = set(self.params) - set(names)
        assert not unknown, f"{self.path} takes no {unknown}"
        return self.params


@dataclass
class Rule:
    """What happens to requests that match: so many times, after so many."""

    matches: Callable[[Call], bool]
    act: Callable[[], Answer | None]
    after: int = 0
    times: int = 1


@dataclass
class Truth:
    """What a document must be: its marks, and who may see it."""

    marks: frozenset[str]
    acl: frozenset[str]


Route = Callable[..., Any]
AnyDouble = TypeVar("AnyDouble", bound="Double")


class Double:
    """Base of all doubles. `cap` is how many things a page has at most."""

    kind = ""
    cap = 4

    def __init__(self) -> None:
        self.now = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
        self.calls: list[Call] = []
        self.rules: list[Rule] = []
        self.errors: list[BaseException] = []
        self.routes: list[tuple[str, re.Pattern[str], Route]] = []
        self.lock = threading.RLock()
        self.site: Site | None = None
        self._marks = 0
        self._ids = 1000

    # ── for tests ────────────────────────────────────────────────────────────────────────────────────────

    def config(self) -> dict[str, Any]:
        """The configuration of a connector that follows all of it."""
        raise NotImplementedError

    def credentials(self) -> dict[str, Any]:
        """Its credentials."""
        return {"token": SECRET}

    def truth(self) -> dict[str, Truth]:
        """Every document that should be in a base, by its source id."""
        raise NotImplementedError

    def add(self) -> None:
        """Something new comes."""
        raise NotImplementedError

    def edit(self, pick: int) -> None:
        """Something that is there changes; `pick` chooses."""
        raise NotImplementedError

    def delete(self, pick: int) -> None:
        """Something that is there goes."""
        raise NotImplementedError

    def permit(self, pick: int) -> None:
        """Somebody's permission changes."""
        raise NotImplementedError

    def is_detail(self, call: Call) -> bool:
        """Whether a request reads one document, beyond what a list tells."""
        raise NotImplementedError

    def details(self) -> list[str]:
        """All such requests, in order."""
        return [f"{call.path}?{call.params}{call.body}" for call in self.calls if self.is_detail(call)]

    def mark(self) -> str:
        """A word that was never used."""
        self._marks += 1
        return f"w{self._marks}x"

    def new_id(self) -> int:
        """A number that was never used."""
        self._ids += 7
        return self._ids

    def tick(self, seconds: float = 10) -> None:
        """Time passes there."""
        self.now += timedelta(seconds=seconds)

    def on(
        self,
        matches: Callable[[Call], bool],
        act: Callable[[], Answer | None],
        *,
        after: int = 0,
        times: int = 1,
    ) -> None:
        """Have something happen when requests come; what `act` gives is the answer, None the usual one."""
        with self.lock:
            self.rules.append(Rule(matches, act, after, times))

    # ── serving ──────────────────────────────────────────────────────────────────────────────────────────

    def route(self, method: str, pattern: str, route: Route) -> None:
        """Serve `pattern`, in which `{name}` is a part of the path, by `route(call, name=…)`."""
        compiled = re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", pattern))
        self.routes.append((method, compiled, route))

    def answer(self, asked: Asked) -> Answer:
        """What is said to a request."""
        parts = urlsplit(asked.path)
        params = dict(parse_qsl(parts.query, keep_blank_values=True))
        headers = {name.lower(): value for name, value in asked.headers.items()}
        is_git = headers.get("content-type", "").startswith("application/x-git")
        body = (asked.body if is_git else json.loads(asked.body)) if asked.body else None
        call = Call(asked.method, parts.path, params, headers, body)
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
                        if (said := rule.act()) is not None:
                            return said
                return self._routed(call)
            except Refused as refused:
                return self.told(refused.body or {"message": "no"}, refused.status, **refused.headers)
            except BaseException as error:  # a mistake in the double, or a request that no tool would take
                self.errors.append(error)
                return self.told({"message": repr(error)}, 418)

    def _routed(self, call: Call) -> Answer:
        if call.method == "POST" and call.body is None:  # who asked left in the middle of it
            raise Refused(400)
        self.authorise(call)
        for method, pattern, route in self.routes:
            found = pattern.fullmatch(call.path)
            if found is not None and method == call.method:
                said = route(call, **{name: unquote(text) for name, text in found.groupdict().items()})
                return said if isinstance(said, Answer) else self.told(said)
        raise Refused(404)

    def authorise(self, call: Call) -> None:
        """Refuse who does not have the token."""
        if call.headers.get("authorization") != f"Bearer {SECRET}":
            raise Refused(
                401, {"message": f"Bad credentials {SECRET}"}
            )  # a tool that repeats what it was given

    def told(self, body: object, status: int = 200, /, **headers: str) -> Answer:
        """A JSON answer, with the tool's time."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        date = format_datetime(self.now, usegmt=True)
        return Answer(
            status, json.dumps(body).encode(), {"Content-Type": "application/json", "Date": date, **named}
        )

    def paged(self, call: Call, things: list[Any], show: Callable[[Any], Any] = lambda one: one) -> Answer:
        """A page by number, with the link to the next."""
        size = min(self.cap, int(call.params.get("per_page", 30)))
        page = int(call.params.get("page", 1))
        part = things[(page - 1) * size : page * size]
        headers: dict[str, str] = {}
        if page * size < len(things):
            last = -(-len(things) // size)
            headers["Link"] = ", ".join(
                f'<{self.link(call, page=str(number))}>; rel="{rel}"'
                for rel, number in (("next", page + 1), ("last", last))
            )
        return self.told([show(one) for one in part], **headers)

    def link(self, call: Call, **params: str) -> str:
        """The address of a request with other parameters."""
        assert self.site is not None
        given = "&".join(f"{name}={value}" for name, value in {**call.params, **params}.items())
        return f"{self.site.url}{call.path}?{given}"


def limited(double: Double, seconds: int = 3600, status: int = 429) -> Callable[[], Answer]:
    """Answers with a limit."""
    return lambda: double.told({"message": "slow down"}, status, Retry_After=str(seconds))


def broken(double: Double, status: int = 500) -> Callable[[], Answer]:
    """Answers with an error."""
    return lambda: double.told({"message": "no"}, status)


def marks_in(text: str) -> frozenset[str]:
    """The marks of a text."""
    return frozenset(MARK.findall(text))


@contextmanager
def following(double: AnyDouble) -> Generator[AnyDouble]:
    """Serve a double until the test is over; a request that no tool would take fails the test."""
    with serve() as site:
        site.anything = double.answer
        double.site = site
        yield double
    _record(double)
    for error in double.errors:
        raise error


def _record(double: Double) -> None:
    """Leave what was asked for `bench.conformity`, if somebody wants it."""
    if folder := os.environ.get("RECORD_CALLS"):
        name = type(double).__name__.removesuffix("Double").lower()
        with (Path(folder) / f"{name}-{os.getpid()}.jsonl").open("a", encoding="utf-8") as file:
            for call in double.calls:
                told = {
                    "method": call.method,
                    "path": call.path,
                    "params": dict(call.params),
                    "body": None if isinstance(call.body, bytes) else call.body,
                }
                file.write(json.dumps(told) + "\n")


@dataclass
class Written:
    """Something that people wrote: a text with a mark, and when."""

    id: int
    text: str
    at: datetime
    by: str = "ann"
    more: dict[str, Any] = field(default_factory=dict[str, Any])
