"""A fake Confluence with the part of its API that we use: Cloud with cursors and empty pages, Data Center with offsets and no email addresses."""

import re
from collections.abc import Callable, Sequence
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
    inline_limit = 25  # attachments that come with a content
    has_whole_index = False  # else a search by ids finds a third of them, as while the index is behind
    zone = "Asia/Kolkata"

    def __init__(self) -> None:
        super().__init__()
        self.unindexed_ids = set[int]()  # of contents that no search finds
        for pattern, route in (
            ("/user/current", self._current_user),
            ("/user", self._user),
            ("/content/search", self._search),
            ("/content/{number}/restriction/byOperation/read", self._read_restriction),
            ("/content/{number}/child/attachment", self._attachments),
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
            ("/(?P<kind>page|blogpost)s/{number}", self._content_v2),
            ("/pages", self._pages_by_id),
            ("/pages/{number}/ancestors", self._ancestors),
            ("/(?P<kind>page|blogpost)s/{number}/attachments", self._attachments_v2),
            ("/spaces/{number}/permissions", self._permissions_v2),
            ("/attachments/{number}", self._attachment_v2),
            ("/inline-comments/{number}", self._comment_v2),
        ):
            self.route("GET", "/wiki/api/v2" + pattern, route)

    def is_detail(self, call: FakeCall) -> bool:
        if self.cloud:
            return re.fullmatch(r"/wiki/api/v2/(page|blogpost)s/\d+", call.path) is not None
        return call.path.endswith("/child/attachment")

    def reads(self, content: Content) -> list[FakeCall]:
        """The requests that read a page or blog post, alone or with others."""
        paths = (f"/wiki/api/v2/{content.kind}s/{content.id}", f"{self.v1}/content/{content.id}")
        queries = re.compile(rf"id (=|in) .*\b{content.id}\b")
        return [
            call
            for call in self.calls
            if call.path in paths
            or ("body" in call.params.get("expand", "") and queries.match(call.params.get("cql", "")))
        ]

    # ── the API ─────────────────────────────────────────────────────────────────────────────

    def _current_user(self, call: FakeCall) -> Any:
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
        accounts = self.groups[group]
        part = accounts[start : start + 2]
        # Cloud returns no email addresses here: each account has to be requested.
        members_json = [self.user_json(account) | ({"email": ""} if self.cloud else {}) for account in part]
        links = {"next": f"{call.path}?start={start + 2}"} if start + 2 < len(accounts) else {}
        return {"results": members_json, "start": start, "limit": 2, "size": len(part), "_links": links}

    def _space_json(self, space: Space) -> dict[str, Any]:
        number: Any = str(space.id) if self.cloud else space.id
        return {"id": number, "key": space.key, "name": space.key, "type": "global", "status": "current"}

    def _spaces(self, call: FakeCall) -> Any:
        if self.cloud:
            call.require_only("keys", "status", "limit", "cursor")
            assert call.path.startswith("/wiki/api/v2")
            return self._cursor_page(call, [self._space_json(space) for space in self.spaces])
        call.require_only("status", "limit", "start")
        return self._offset_page(call, [self._space_json(space) for space in self.spaces])

    def _space(self, call: FakeCall, key: str) -> Any:
        for space in self.spaces:
            if space.key == key:
                return self._space_json(space)
        raise FakeError(404)

    def _cursor_page(
        self, call: FakeCall, rows: Sequence[Any], show: Callable[[Any], Any] = lambda row: row
    ) -> Any:
        """A page by cursor; an empty page with a link to the next follows each page."""
        cursor = call.params.get("cursor", "c0")
        start = int(cursor[1:])
        size = min(self.page_size, int(call.params.get("limit", 25)))
        page = list(rows[start : start + size]) if cursor[0] == "c" else list[Any]()
        end = start + len(page)
        links: dict[str, str] = {}
        if end < len(rows):
            links["next"] = self._next(call, f"{'e' if cursor[0] == 'c' else 'c'}{end}")
        return {
            "results": [show(row) for row in page],
            "_links": {**links, "base": "https://x.atlassian.net/wiki"},
        }

    def _next(self, call: FakeCall, cursor: str) -> str:
        params = "&".join(f"{name}={quote(value)}" for name, value in call.params.items() if name != "cursor")
        return f"{call.path}?{params}&cursor={cursor}"

    def _offset_page(
        self, call: FakeCall, rows: Sequence[Any], show: Callable[[Any], Any] = lambda row: row
    ) -> Any:
        start = int(call.params.get("start", 0))
        page = rows[start : start + min(self.page_size, int(call.params.get("limit", 25)))]
        links: dict[str, str] = {}
        if start + len(page) < len(rows):
            links["next"] = f"/rest/api/x?start={start + len(page)}&limit={self.page_size}"
        results = [show(row) for row in page]
        return {
            "results": results,
            "start": start,
            "limit": self.page_size,
            "size": len(page),
            "_links": links,
        }

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
        contents = [
            content for content in self.contents if str(content.space) == number and content.kind == kind
        ]
        if params["sort"] == "id":
            contents.sort(key=lambda content: content.id)
        else:
            assert params["sort"] == "-modified-date"
            contents.sort(key=lambda content: content.updated, reverse=True)
        return self._cursor_page(call, contents, self._content_v2_json)

    def _content_v2_json(self, content: Content) -> dict[str, Any]:
        return {
            "id": str(content.id),
            "status": "current",
            "title": content.title,
            "spaceId": str(content.space),
            **self._parent_json(content),
            "version": {"number": content.version, "createdAt": self.timestamp(content.updated)},
            "_links": {"webui": f"/spaces/x/pages/{content.id}"},
        }

    def _parent_json(self, content: Content) -> dict[str, Any]:
        if content.kind != "page":
            return {}
        parent = None if content.parent is None else self._find_content(content.parent)
        return {"parentId": parent and str(parent.id), "parentType": parent and parent.kind}

    def _pages_by_id(self, call: FakeCall) -> Any:
        ids = call.require_only("id", "limit", "cursor")["id"].split(",")
        pages = [content for content in self.contents if content.kind == "page" and str(content.id) in ids]
        return self._cursor_page(call, [self._content_v2_json(content) for content in pages])

    def storage(self, text: str) -> str:
        """A text as imports leave it, with an unknown macro and unclosed tags."""
        return (
            f"<ac:structured-macro ac:name='hologram'><ac:rich-text-body><p>{text}<ul><li>a<li>b</ul>"
            "</ac:rich-text-body></ac:structured-macro><p>open <b>bold"
        )

    def _content_v2(self, call: FakeCall, number: str, kind: str) -> Any:
        assert call.require_only("body-format")["body-format"] == "storage"
        content = self._find_content(number)
        if content.kind != kind:
            raise FakeError(404)
        body = {"storage": {"representation": "storage", "value": self.storage(content.text)}}
        return self._content_v2_json(content) | {"body": body}

    def _ancestors(self, call: FakeCall, number: str) -> Any:
        call.require_only("limit")
        above = list(self.chain(self._find_content(number)))[1:]
        return {"results": [{"id": str(page.id), "type": "page"} for page in reversed(above)], "_links": {}}

    def _attachments_v2(self, call: FakeCall, number: str, kind: str) -> Any:
        call.require_only("limit", "cursor")
        return self._cursor_page(
            call,
            [
                self._attachment_json(self._find_content(number), attachment)
                for attachment in self._find_content(number).files
            ],
        )

    def _find_attachment(self, number: str) -> tuple[Content, int]:
        for content in self.contents:
            for file in content.files:
                if number == f"att{file}":
                    return content, file
        raise FakeError(404)

    def _attachment_v2(self, call: FakeCall, number: str) -> Any:
        call.require_only()
        page, file = self._find_attachment(number)
        key = "pageId" if page.kind == "page" else "blogPostId"
        return self._attachment_json(page, file) | {key: str(page.id)}

    def _comment_v2(self, call: FakeCall, number: str) -> Any:
        call.require_only()
        comment = self._find_content(number)
        if comment.kind != "comment":
            raise FakeError(404)
        return {"id": number, "status": "current", "pageId": str(comment.parent)}

    def _attachments(self, call: FakeCall, number: str) -> Any:
        call.require_only("limit", "start", "expand")
        return self._offset_page(
            call,
            [
                self._attachment_json(self._find_content(number), attachment)
                for attachment in self._find_content(number).files
            ],
        )

    def _attachment_json(self, content: Content, number: int) -> dict[str, Any]:
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
        rows = self.search(params["cql"])
        expand = params.get("expand", "").split(",")
        results = [row for _, row in rows]

        def show(row: Any) -> Any:
            return (
                self._content_v1_json(row, expand)
                if isinstance(row, Content)
                else self._attachment_json(*row)
            )

        return (
            self._cursor_page(call, results, show) if self.cloud else self._offset_page(call, results, show)
        )

    def search(self, cql: str) -> list[tuple[datetime, Any]]:
        """The results of a CQL query, each with the time of its last change; an attachment as its content and number."""
        conditions, _, order = cql.partition(" order by ")
        rows: list[tuple[datetime, int, Any]] = [
            (content.updated, content.id, content)
            for content in self.contents
            if content.id not in self.unindexed_ids
        ]
        if "attachment" in conditions:
            rows += [
                (when, number, (content, number))
                for content in self.contents
                for number, (_, when) in content.files.items()
            ]
        for condition in conditions.split(" and "):
            rows = list(filter(self._condition(condition), rows))
        if order == "created asc":
            rows.sort(key=lambda row: row[1])
        elif order:
            assert order in ("lastmodified asc", "lastmodified desc"), order
            rows.sort(key=lambda row: (row[0], -row[1]), reverse=order.endswith("desc"))
        return [(row[0], row[2]) for row in rows]

    def _condition(self, text: str) -> Callable[[tuple[datetime, int, Any]], bool]:
        """A condition of CQL, on rows of (time, id, content)."""
        if match := re.fullmatch(r'space = "(.+)"', text):
            ids = {space.id for space in self.spaces if space.key == match[1]}
            return lambda row: (row[2] if isinstance(row[2], Content) else row[2][0]).space in ids
        if match := re.fullmatch(r"type (?:in \(([a-z, ]+)\)|= ([a-z]+))", text):
            kinds = (match[1] or match[2]).split(", ")
            return lambda row: (row[2].kind if isinstance(row[2], Content) else "attachment") in kinds
        if match := re.fullmatch(r"id = (\d+)", text):
            number = int(match[1])
            return lambda row: row[1] == number
        if match := re.fullmatch(r"id in \(([0-9, ]+)\)", text):
            numbers = {int(part) for part in match[1].split(", ")}
            return lambda row: row[1] in numbers and (self.has_whole_index or row[1] % 3 == 0)
        if match := re.fullmatch(r'lastmodified (>=|<) "(\d{4}-\d\d-\d\d \d\d:\d\d)"', text):
            at = datetime.strptime(match[2], "%Y-%m-%d %H:%M").replace(tzinfo=ZoneInfo(self.zone))
            at = at.astimezone(UTC)
            return lambda row: row[0] >= at if match[1] == ">=" else row[0] < at
        raise AssertionError(text)

    def _content_v1_json(self, content: Content, expand: list[str]) -> dict[str, Any]:
        space = next(entry for entry in self.spaces if entry.id == content.space)
        expandable: dict[str, Any] = {
            "version": {"number": content.version, "when": self.timestamp(content.updated)},
            "body": {"storage": {"value": self.storage(content.text), "representation": "storage"}},
            "space": self._space_json(space) | {"id": space.id},
        }
        expanded = {
            name: value
            for name, value in expandable.items()
            if any(entry.startswith(name) for entry in expand)
        }
        if "container" in expand:
            expanded["container"] = self._space_json(space)
            if content.kind == "comment" and content.parent is not None:
                page = self._find_content(content.parent)
                expanded["container"] = {"id": str(page.id), "type": page.kind, "title": page.title}
                if content.on_file is not None:
                    expanded["container"] = {
                        "id": f"att{content.on_file}",
                        "type": "attachment",
                        "title": "x.txt",
                    }
        if "ancestors" in expand:
            above = [] if content.kind == "comment" else list(self.chain(content))[1:]
            expanded["ancestors"] = [{"id": str(entry.id), "type": entry.kind} for entry in reversed(above)]
        if "children.attachment.version" in expand:
            files = [self._attachment_json(content, number) for number in content.files]
            part = files[: self.inline_limit]
            links = {"next": "/rest/api/x"} if len(part) < len(files) else {}
            expanded["children"] = {
                "attachment": {
                    "results": part,
                    "size": len(part),
                    "limit": self.inline_limit,
                    "_links": links,
                }
            }
        if any(entry.startswith("restrictions") for entry in expand):
            expanded["restrictions"] = {
                "read": {"operation": "read", "restrictions": self._restrictions_json(content)}
            }
        links = {"webui": f"/spaces/x/pages/{content.id}" if self.cloud else f"/display/x/{content.id}"}
        header = {"id": str(content.id), "type": content.kind, "status": "current", "title": content.title}
        return {**header, **expanded, "_links": links}

    def _content(self, call: FakeCall, number: str) -> Any:
        assert not self.cloud
        if number.startswith("att"):
            return self._attachment_json(*self._find_attachment(number))
        return self._content_v1_json(
            self._find_content(number), call.require_only("expand")["expand"].split(",")
        )

    # ── who may see what ─────────────────────────────────────────────────────────────────────────────────

    def _restrictions_json(self, content: Content) -> dict[str, Any]:
        users = [self.user_json(name) for name in content.restricted_to if not name.startswith("@")]
        groups = [
            {"type": "group", "name": name[1:], **({"id": name[1:]} if self.cloud else {})}
            for name in content.restricted_to
            if name.startswith("@")
        ]
        return {
            "user": {"results": users, "size": len(users), "start": 0, "limit": 25},
            "group": {"results": groups, "size": len(groups), "start": 0, "limit": 25},
        }

    def _read_restriction(self, call: FakeCall, number: str) -> Any:
        call.require_only("expand", "start", "limit")
        return {"operation": "read", "restrictions": self._restrictions_json(self._find_content(number))}

    def _permissions_v2(self, call: FakeCall, number: str) -> Any:
        call.require_only("limit", "cursor")
        space = next(reader for reader in self.spaces if str(reader.id) == number)
        if space.secret:
            raise FakeError(403)
        grants = [
            {
                "id": "1",
                "principal": {
                    "type": "group" if reader.startswith("@") else "user",
                    "id": reader.removeprefix("@"),
                },
                "operation": {"key": "read", "targetType": "space"},
            }
            for reader in space.readers
        ]
        unrelated_grant = {
            "principal": {"type": "user", "id": "c:3"},
            "operation": {"key": "delete", "targetType": "page"},
        }
        return self._cursor_page(call, [*grants, unrelated_grant])

    def _permissions(self, call: FakeCall, key: str) -> Any:
        space = next(candidate for candidate in self.spaces if candidate.key == key)
        if space.secret:
            raise FakeError(403)
        return [
            {
                "operation": {"targetType": "space", "operationKey": "read"},
                "subject": self._subject(candidate),
            }
            for candidate in space.readers
        ]

    def _subject(self, reader: str) -> dict[str, Any]:
        if reader == "*":
            return {"type": "anonymous"}
        return {"type": "group", "name": reader[1:]} if reader.startswith("@") else self.user_json(reader)


class FakeConfluenceDataCenter(FakeConfluence):
    """Confluence Data Center: CQL and offsets, user keys, and no email addresses."""

    cloud = False
    v1 = "/rest/api"
    zone = "America/St_Johns"

    def __init__(self) -> None:
        super().__init__()
        self.spaces[1].readers = ["*"]

    def _members(self, names: list[str]) -> set[str]:
        return {"*"} if "*" in names else super()._members(names)
