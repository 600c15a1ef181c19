"""Confluence, as far as we use its API: Cloud with cursors and empty pages, Data Center with offsets and no addresses."""

import re
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote
from zoneinfo import ZoneInfo

from tests.connectors.fakes.confluence_model import ConfluenceModel, Content, Space
from tests.connectors.fakes.tool import FakeCall, FakeError
from tests.sources.site import SiteResponse


class FakeConfluence(ConfluenceModel):
    """Confluence Cloud with two spaces."""

    kind = "confluence"
    v1 = "/wiki/rest/api"
    zone = "Asia/Kolkata"

    def __init__(self) -> None:
        super().__init__()
        for pattern, route in (
            ("/user/current", self._me),
            ("/user", self._user),
            ("/content/search", self._search),
            ("/content/{number}/restriction/byOperation/read", self._restriction),
            ("/content/{number}/child/attachment", self._attached),
            ("/content/{page}/child/attachment/{number}/download", self._download),
            ("/group/{group}/membersByGroupId", self._group),
            ("/group/{group}/member", self._group),
            ("/space", self._spaces),
            ("/space/{key}", self._space),
            ("/space/{key}/permissions", self._permissions),
            ("/content/{number}", self._content),
        ):
            self.route("GET", self.v1 + pattern, route)
        for pattern, route in (
            ("/spaces", self._spaces),
            ("/spaces/{number}/(?P<kind>page|blogpost)s", self._list),
            ("/(?P<kind>page|blogpost)s/{number}", self._one_v2),
            ("/pages/{number}/ancestors", self._ancestors),
            ("/(?P<kind>page|blogpost)s/{number}/attachments", self._attached_v2),
            ("/spaces/{number}/permissions", self._permissions_v2),
        ):
            self.route("GET", "/wiki/api/v2" + pattern, route)

    def is_detail(self, call: FakeCall) -> bool:
        if self.cloud:
            return re.fullmatch(r"/wiki/api/v2/(page|blogpost)s/\d+", call.path) is not None
        return call.path.endswith("/child/attachment")

    # ── what Confluence says ─────────────────────────────────────────────────────────────────────────────

    def _me(self, call: FakeCall) -> Any:
        return {"type": "known", "accountId": "r", "displayName": "Robot"}

    def _user(self, call: FakeCall) -> Any:
        return self.user_json(
            call.require_only("accountId" if self.cloud else "key")["accountId" if self.cloud else "key"]
        )

    def user_json(self, account: str) -> dict[str, Any]:
        if not self.cloud:
            return {"type": "known", "username": account, "userKey": account, "displayName": account}
        email = self.people[account]
        return {
            "type": "known",
            "accountId": account,
            "accountType": "atlassian",
            "email": email,
            "publicName": "x",
        }

    def _group(self, call: FakeCall, group: str) -> Any:
        params = call.require_only("start", "limit")
        if group not in self.groups:
            raise FakeError(404)
        start = int(params["start"])
        members = self.groups[group]
        part = members[start : start + 2]
        # Cloud returns no email addresses here: each account has to be requested.
        shown = [self.user_json(one) | ({"email": ""} if self.cloud else {}) for one in part]
        links = {"next": f"{call.path}?start={start + 2}"} if start + 2 < len(members) else {}
        return {"results": shown, "start": start, "limit": 2, "size": len(part), "_links": links}

    def _shown_space(self, space: Space) -> dict[str, Any]:
        number: Any = str(space.id) if self.cloud else space.id
        return {"id": number, "key": space.key, "name": space.key, "type": "global", "status": "current"}

    def _spaces(self, call: FakeCall) -> Any:
        if self.cloud:
            call.require_only("keys", "status", "limit", "cursor")
            assert call.path.startswith("/wiki/api/v2")
            return self._cursor_page(call, [self._shown_space(one) for one in self.spaces])
        call.require_only("status", "limit", "start")
        return self._offset_page(call, [self._shown_space(one) for one in self.spaces])

    def _space(self, call: FakeCall, key: str) -> Any:
        for space in self.spaces:
            if space.key == key:
                return self._shown_space(space)
        raise FakeError(404)

    def _cursor_page(self, call: FakeCall, things: list[Any]) -> Any:
        """By cursor; between any two pages is an empty one that has a next."""
        told = call.params.get("cursor", "c0")
        start = int(told[1:])
        part = things[start : start + self.page_size] if told[0] == "c" else []
        end = start + len(part)
        links: dict[str, str] = {}
        if end < len(things):
            links["next"] = self._next(call, f"{'e' if told[0] == 'c' else 'c'}{end}")
        return {"results": part, "_links": {**links, "base": "https://x.atlassian.net/wiki"}}

    def _next(self, call: FakeCall, cursor: str) -> str:
        params = "&".join(f"{name}={quote(value)}" for name, value in call.params.items() if name != "cursor")
        return f"{call.path}?{params}&cursor={cursor}"

    def _offset_page(self, call: FakeCall, things: list[Any]) -> Any:
        start = int(call.params.get("start", 0))
        part = things[start : start + self.page_size]
        links: dict[str, str] = {}
        if start + len(part) < len(things):
            links["next"] = f"/rest/api/x?start={start + len(part)}&limit={self.page_size}"
        return {"results": part, "start": start, "limit": self.page_size, "size": len(part), "_links": links}

    def timestamp(self, when: datetime) -> str:
        return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")

    def _find_content(self, number: str | int) -> Content:
        for content in self.contents:
            if str(content.id) == str(number):
                return content
        raise FakeError(404)

    def _list(self, call: FakeCall, number: str, kind: str) -> Any:
        params = call.require_only("status", "sort", "limit", "cursor")
        assert params["status"] == "current"
        found = [one for one in self.contents if str(one.space) == number and one.kind == kind]
        if params["sort"] == "id":
            found.sort(key=lambda one: one.id)
        else:
            assert params["sort"] == "-modified-date"
            found.sort(key=lambda one: one.updated, reverse=True)
        return self._cursor_page(call, [self._shown_v2(one) for one in found])

    def _shown_v2(self, content: Content) -> dict[str, Any]:
        return {
            "id": str(content.id),
            "status": "current",
            "title": content.title,
            "spaceId": str(content.space),
            "parentId": None if content.parent is None else str(content.parent),
            "version": {"number": content.version, "createdAt": self.timestamp(content.updated)},
            "_links": {"webui": f"/spaces/x/pages/{content.id}"},
        }

    def storage(self, text: str) -> str:
        """A text as imports leave it: an unknown macro, and tags that are never closed."""
        return (
            f"<ac:structured-macro ac:name='hologram'><ac:rich-text-body><p>{text}<ul><li>a<li>b</ul>"
            "</ac:rich-text-body></ac:structured-macro><p>open <b>bold"
        )

    def _one_v2(self, call: FakeCall, number: str, kind: str) -> Any:
        assert call.require_only("body-format")["body-format"] == "storage"
        content = self._find_content(number)
        if content.kind != kind:
            raise FakeError(404)
        body = {"storage": {"representation": "storage", "value": self.storage(content.text)}}
        return self._shown_v2(content) | {"body": body}

    def _ancestors(self, call: FakeCall, number: str) -> Any:
        call.require_only("limit")
        above = list(self.chain(self._find_content(number)))[1:]
        return {"results": [{"id": str(one.id), "type": "page"} for one in reversed(above)], "_links": {}}

    def _attached_v2(self, call: FakeCall, number: str, kind: str) -> Any:
        call.require_only("limit", "cursor")
        return self._cursor_page(
            call, [self._file(self._find_content(number), one) for one in self._find_content(number).files]
        )

    def _attached(self, call: FakeCall, number: str) -> Any:
        call.require_only("limit", "start", "expand")
        return self._offset_page(
            call, [self._file(self._find_content(number), one) for one in self._find_content(number).files]
        )

    def _file(self, content: Content, number: int) -> dict[str, Any]:
        data, when = content.files[number]
        return {
            "id": f"att{number}",
            "type": "attachment",
            "status": "current",
            "title": f"{number}.txt",
            "fileSize": len(data),
            "mediaType": "text/plain",
            "version": {"number": 1, "createdAt": self.timestamp(when), "when": self.timestamp(when)},
            "container": {"id": str(content.id), "type": content.kind},
            "_links": {"download": f"/rest/api/content/{content.id}/child/attachment/att{number}/download"},
        }

    def _download(self, call: FakeCall, page: str, number: str) -> SiteResponse:
        return SiteResponse(200, self._find_content(page).files[int(number.removeprefix("att"))][0])

    # ── CQL ──────────────────────────────────────────────────────────────────────────────────────────────

    def _search(self, call: FakeCall) -> Any:
        params = call.require_only("cql", "expand", "limit", "cursor" if self.cloud else "start")
        rows = self.matching(params["cql"])
        expand = params.get("expand", "").split(",")
        shown = [self._shown_v1(one, expand) if isinstance(one, Content) else one for _, one in rows]
        return self._cursor_page(call, shown) if self.cloud else self._offset_page(call, shown)

    def matching(self, cql: str) -> list[tuple[datetime, Any]]:
        """What a query finds, with the time of its change."""
        conditions, _, order = cql.partition(" order by ")
        rows: list[tuple[datetime, int, Any]] = [(one.updated, one.id, one) for one in self.contents]
        if "attachment" in conditions:
            rows += [
                (when, number, self._file(content, number) | {"space": content.space})
                for content in self.contents
                for number, (_, when) in content.files.items()
            ]
        for condition in conditions.split(" and "):
            rows = [row for row in rows if self._passes(row, condition)]
        if order == "created asc":
            rows.sort(key=lambda row: row[1])
        elif order:
            assert order in ("lastmodified asc", "lastmodified desc"), order
            rows.sort(key=lambda row: (row[0], -row[1]), reverse=order.endswith("desc"))
        return [(row[0], row[2]) for row in rows]

    def _passes(self, row: tuple[datetime, int, Any], condition: str) -> bool:
        when, number, thing = row
        kind = thing.kind if isinstance(thing, Content) else "attachment"
        space = thing.space if isinstance(thing, Content) else thing["space"]
        if found := re.fullmatch(r'space = "(.+)"', condition):
            return any(one.id == space and one.key == found[1] for one in self.spaces)
        if found := re.fullmatch(r"type in \(([a-z, ]+)\)", condition):
            return kind in found[1].split(", ")
        if found := re.fullmatch(r"type = ([a-z]+)", condition):
            return kind == found[1]
        if found := re.fullmatch(r"id = (\d+)", condition):
            return number == int(found[1])
        if found := re.fullmatch(r'lastmodified (>=|<) "(\d{4}-\d\d-\d\d \d\d:\d\d)"', condition):
            at = datetime.strptime(found[2], "%Y-%m-%d %H:%M").replace(tzinfo=ZoneInfo(self.zone))
            return when >= at if found[1] == ">=" else when < at
        raise AssertionError(condition)

    def _shown_v1(self, content: Content, expand: list[str]) -> dict[str, Any]:
        space = next(one for one in self.spaces if one.id == content.space)
        told: dict[str, Any] = {
            "version": {"number": content.version, "when": self.timestamp(content.updated)},
            "body": {"storage": {"value": self.storage(content.text), "representation": "storage"}},
            "space": self._shown_space(space) | {"id": space.id},
        }
        shown = {name: value for name, value in told.items() if any(one.startswith(name) for one in expand)}
        if "container" in expand:
            shown["container"] = self._shown_space(space)
            if content.kind == "comment" and content.parent is not None:
                page = self._find_content(content.parent)
                shown["container"] = {"id": str(page.id), "type": page.kind, "title": page.title}
        if "ancestors" in expand:
            above = [] if content.kind == "comment" else list(self.chain(content))[1:]
            shown["ancestors"] = [{"id": str(one.id), "type": one.kind} for one in reversed(above)]
        if any(one.startswith("restrictions") for one in expand):
            shown["restrictions"] = {"read": {"operation": "read", "restrictions": self._restricted(content)}}
        links = {"webui": f"/display/x/{content.id}"}
        named = {"id": str(content.id), "type": content.kind, "status": "current", "title": content.title}
        return {**named, **shown, "_links": links}

    def _content(self, call: FakeCall, number: str) -> Any:
        assert not self.cloud
        return self._shown_v1(self._find_content(number), call.require_only("expand")["expand"].split(","))

    # ── who may see what ─────────────────────────────────────────────────────────────────────────────────

    def _restricted(self, content: Content) -> dict[str, Any]:
        users = [self.user_json(one) for one in content.restricted if not one.startswith("@")]
        groups = [
            {"type": "group", "name": one[1:], **({"id": one[1:]} if self.cloud else {})}
            for one in content.restricted
            if one.startswith("@")
        ]
        return {
            "user": {"results": users, "size": len(users), "start": 0, "limit": 25},
            "group": {"results": groups, "size": len(groups), "start": 0, "limit": 25},
        }

    def _restriction(self, call: FakeCall, number: str) -> Any:
        call.require_only("expand", "start", "limit")
        return {"operation": "read", "restrictions": self._restricted(self._find_content(number))}

    def _permissions_v2(self, call: FakeCall, number: str) -> Any:
        call.require_only("limit", "cursor")
        space = next(one for one in self.spaces if str(one.id) == number)
        if space.secret:
            raise FakeError(403)
        told = [
            {
                "id": "1",
                "principal": {
                    "type": "group" if one.startswith("@") else "user",
                    "id": one.removeprefix("@"),
                },
                "operation": {"key": "read", "targetType": "space"},
            }
            for one in space.readers
        ]
        other = {
            "principal": {"type": "user", "id": "c:3"},
            "operation": {"key": "delete", "targetType": "page"},
        }
        return self._cursor_page(call, [*told, other])

    def _permissions(self, call: FakeCall, key: str) -> Any:
        space = next(one for one in self.spaces if one.key == key)
        if space.secret:
            raise FakeError(403)
        return [
            {"operation": {"targetType": "space", "operationKey": "read"}, "subject": self._subject(one)}
            for one in space.readers
        ]

    def _subject(self, one: str) -> dict[str, Any]:
        if one == "*":
            return {"type": "anonymous"}
        return {"type": "group", "name": one[1:]} if one.startswith("@") else self.user_json(one)


class FakeConfluenceDataCenter(FakeConfluence):
    """Confluence Data Center: CQL and offsets, user keys, and no email addresses."""

    cloud = False
    cap = 4
    v1 = "/rest/api"
    zone = "America/St_Johns"

    def __init__(self) -> None:
        super().__init__()
        self.spaces[1].readers = ["*"]

    def _members(self, named: list[str]) -> set[str]:
        return {"*"} if "*" in named else super()._members(named)
