"""Jira: issues with their comments and attachments, on Cloud, Server and Data Center.

    stream              documents                                   named by
    (project, issue)    issues with comments; attachments as files  the issue's id, which stays when it is moved or renamed

Issues are read by the time of their change, to the minute of the user's own clock (minutes.py). An issue that moved to
another project is found there by its change, and asked for by its id before it is pruned. Comments for a group or a role
alone are left out: whoever sees the issue may not see them. Who may see what is jira_access's.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Collection, Sequence
from typing import Any

from pydantic import Field, field_validator

from gristmill.connectors import anchored, markup
from gristmill.connectors.atlassian import AtlassianConfig, AtlassianCredentials, a_dict, a_list
from gristmill.connectors.connector import (
    Access,
    Account,
    Attachment,
    Audience,
    Batch,
    Document,
    Mark,
    Marks,
    Ref,
    Stream,
)
from gristmill.connectors.jira_access import JiraAccess
from gristmill.connectors.jira_api import FIELDS, LIGHT_PAGE, PAGE, JiraApi, instant
from gristmill.connectors.kind import Kind, OpenConnector, Surroundings
from gristmill.connectors.minutes import Found, Minutes, Row, Window, Zone
from gristmill.connectors.reading import guarded
from gristmill.connectors.transport import Transport
from gristmill.errors import Gone, Unreadable

MARKS = 1
ISSUE = "issue"
_FORM = "%Y-%m-%d %H:%M"
_QUOTED = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'")
_LONG = 50_000  # characters that are converted beside everything else, not before it


class JiraConfig(AtlassianConfig):
    """What of Jira is followed."""

    projects: list[str] = Field(
        default=[], max_length=500, description="Projects, as keys or numbers; all that are seen when empty."
    )
    jql: str | None = Field(
        default=None, max_length=2000, description="Which of their issues, as JQL without an order."
    )
    attachments: bool = Field(default=True, description="Whether attachments are filed below their issues.")

    @field_validator("jql")
    @classmethod
    def _one_condition(cls, jql: str | None) -> str | None:
        """It stands in brackets among other conditions: it must be one."""
        if jql is None or not jql.strip():
            return None
        plain = _QUOTED.sub("", jql)
        depth = 0
        for sign in plain:
            depth += (sign == "(") - (sign == ")")
            if depth < 0:
                break
        if depth != 0 or '"' in plain or "'" in plain:
            raise ValueError("Brackets and quotes in the JQL must be closed.")
        if re.search(r"\border\s+by\b", plain, re.I):
            raise ValueError("The JQL must not have an order: issues are read by their time of change.")
        return jql.strip()


class Jira(OpenConnector):
    """One Jira, with what is followed of it."""

    def __init__(self, config: JiraConfig, api: JiraApi) -> None:
        self._config, self._api = config, api
        self._access = JiraAccess(api)
        self._projects: dict[str, dict[str, Any]] | None = None
        self._zone: Zone | None = None

    async def close(self) -> None:
        """Close its connections."""
        await self._api.close()

    async def check(self) -> Account:
        """Who the credentials are, and how many projects are followed."""
        me = await self._api.myself()
        return Account(str(me.get("displayName") or "?"), f"{len(await self._followed())} projects")

    async def estimate(self, marks: Marks) -> int | None:
        """How many issues there are, as long as none was read."""
        if marks:
            return None
        total = 0
        for number in await self._followed():
            total += await self._api.count(self._jql(number))
        return total

    async def sync(self, marks: Marks, done: Collection[Stream] = ()) -> AsyncIterator[Batch]:
        """What changed in each project."""
        for number in await self._followed():
            stream = Stream(f"project:{number}", ISSUE)
            if stream not in done:
                async for batch in guarded(stream, self._read(number, stream, marks.get(stream))):
                    yield batch

    async def fetch(self, ref: Ref) -> Document:
        """One issue as it is now, in whichever project; Gone when it is not among what is followed."""
        number = ref.source_id.partition(":")[2]
        issue = await self._api.issue(number)
        project = str(a_dict(_fields(issue).get("project")).get("id"))
        if project not in await self._followed():
            raise Gone(f"{ref.source_id} is in a project that is not followed.")
        if self._config.jql is not None:
            found, _, _ = await self._api.search(f"id = {number} AND ({self._config.jql})", ["id"], 1, None)
            if not found:
                raise Gone(f"{ref.source_id} is not among the issues that are followed.")
        return await self.document(issue, Stream(f"project:{project}", ISSUE))

    async def access(self, audiences: Sequence[str]) -> AsyncIterator[Access]:
        """Who sees each project and level now."""
        wanted = set(audiences)
        for number, project in (await self._followed()).items():
            keys = {key for key in wanted if key.split(":")[1] == number}
            if keys:
                yield Access(await JiraAccess(self._api).audiences(project, keys))

    async def download(self, attachment: Attachment) -> AsyncIterator[bytes]:
        """The bytes of an attachment."""
        async for piece in self._api.content(attachment.locator):
            yield piece

    # ── scopes ───────────────────────────────────────────────────────────────────────────────────────────

    async def _followed(self) -> dict[str, dict[str, Any]]:
        if self._projects is None:
            found: dict[str, dict[str, Any]] = {}
            if not self._config.projects:
                async for project in self._api.projects():
                    found[str(project.get("id"))] = project
            for key in self._config.projects:
                try:
                    project = await self._api.project(key)
                except Gone:
                    continue  # what it had is asked for once more, and pruned
                found[str(project.get("id"))] = project
            self._projects = dict(sorted(found.items()))
        return self._projects

    def _jql(self, number: str) -> str:
        filtered = "" if self._config.jql is None else f" AND ({self._config.jql})"
        return f"project = {number}{filtered}"

    async def _read(self, number: str, stream: Stream, mark: Mark | None) -> AsyncIterator[Batch]:
        if self._zone is None:
            me = await self._api.myself()
            self._zone = Zone(me.get("timeZone") if isinstance(me.get("timeZone"), str) else None)
        project = (await self._followed())[number]
        query = _Issues(self, self._api, self._jql(number), stream, self._zone)
        told: set[str] = set()
        async for batch in anchored.read(stream, MARKS, mark, Minutes(query, mark)):
            named = {document.audience for document in batch.documents}
            # A whole run may bring no document: who sees those of earlier runs is told anyway.
            audiences = await self._audiences(project, named, told)
            told |= {audience.key for audience in audiences}
            yield Batch(
                batch.stream,
                batch.mark,
                batch.documents,
                batch.failures,
                audiences,
                batch.present,
                batch.listing,
            )

    async def _audiences(self, project: dict[str, Any], named: set[str], told: set[str]) -> list[Audience]:
        if told and named <= told:
            return []
        return await self._access.audiences(project, named)

    # ── one issue ────────────────────────────────────────────────────────────────────────────────────────

    async def document(self, issue: dict[str, Any], stream: Stream) -> Document:
        """An issue with all its comments."""
        number, fields = str(issue.get("id")), _fields(issue)
        held = a_dict(fields.get("comment"))
        comments = a_list(held.get("comments"))
        if "comment" not in fields or int(held.get("total") or 0) > len(comments):
            comments = await self._api.comments(number)
        level = a_dict(fields.get("security")).get("id")
        key = str(issue.get("key") or number)
        return Document(
            Ref(f"issue:{number}", stream, {"id": number}),
            title=f"{key} {markup.clean(str(fields.get('summary') or ''))}".strip(),
            body=await self._body(fields, comments),
            audience=stream.scope if level is None else f"{stream.scope}:level:{level}",
            url=f"{self._config.base_url}/browse/{key}",
            updated_at=instant(fields.get("updated")),
            metadata=_metadata(key, fields),
            attachments=tuple(self._attached(fields)),
        )

    async def _body(self, fields: dict[str, Any], comments: Sequence[Any]) -> str:
        parts = [
            f"# {markup.clean(str(fields.get('summary') or ''))}".strip(),
            await self._text(fields.get("description")),
        ]
        for told in comments:
            comment = a_dict(told)
            if comment.get("visibility"):
                continue
            text = await self._text(comment.get("body"))
            if text:
                author = a_dict(comment.get("author")).get("displayName") or "Somebody"
                day = str(comment.get("created") or "")[:10]
                parts.append(f"**{markup.clean(str(author))}**, {day}:\n\n{text}")
        return "\n\n".join(part for part in parts if part.strip("# "))

    async def _text(self, told: object) -> str:
        """Wiki markup where it is a string, else Atlassian's own format."""
        if told is None:
            return ""
        if not isinstance(told, str):
            return await asyncio.to_thread(markup.adf, told)
        return markup.wiki(told) if len(told) < _LONG else await asyncio.to_thread(markup.wiki, told)

    def _attached(self, fields: dict[str, Any]) -> list[Attachment]:
        if not self._config.attachments:
            return []
        found: list[Attachment] = []
        for told in a_list(fields.get("attachment")):
            file = a_dict(told)
            number = str(file.get("id"))
            name = markup.clean(str(file.get("filename") or number))
            size = file.get("size")
            found.append(
                Attachment(
                    f"attachment:{number}",
                    name,
                    size if isinstance(size, int) else None,
                    str(file.get("mimeType") or "") or None,
                    {"id": number, "content": str(file.get("content") or "")},
                )
            )
        return sorted(found, key=lambda one: one.source_id)


class _Issues:
    """The issues of a project, as `minutes` asks for them."""

    def __init__(self, jira: Jira, api: JiraApi, jql: str, stream: Stream, zone: Zone) -> None:
        self._jira, self._api, self._jql, self._stream, self._zone = jira, api, jql, stream, zone

    async def ask(self, window: Window, cursor: str | None) -> Found:
        """A page of what changed."""
        conditions = [self._jql]
        if window.since is not None:
            conditions.append(f'updated >= "{self._zone.told(window.since, _FORM)}"')
        if window.before is not None:
            conditions.append(f'updated < "{self._zone.told_late(window.before, _FORM)}"')
        order = "key DESC" if window.backwards else "updated ASC, key ASC"
        fields, size = (["updated"], LIGHT_PAGE) if window.light else (FIELDS, PAGE)
        jql = f"{' AND '.join(conditions)} ORDER BY {order}"
        issues, more, now = await self._api.search(jql, fields, size, cursor)
        return Found([self._row(issue, light=window.light) for issue in issues], more, now)

    async def detail(self, row: Row) -> Sequence[Document]:
        """The issue with its comments."""
        issue = row.data if row.data is not None else await self._api.issue(row.id)
        return [await self._jira.document(issue, self._stream)]

    def _row(self, issue: dict[str, Any], *, light: bool) -> Row:
        number = str(issue.get("id"))
        stamp = instant(_fields(issue).get("updated"))
        if stamp is None:
            raise Unreadable("Jira gave an issue without a time of change.", code="connector_refused")
        source = f"issue:{number}"
        return Row(
            number, stamp, Ref(source, self._stream, {"id": number}), (source,), None if light else issue
        )


def _fields(issue: dict[str, Any]) -> dict[str, Any]:
    return a_dict(issue.get("fields"))


def _metadata(key: str, fields: dict[str, Any]) -> dict[str, Any]:
    """What filters and people use; nothing that changes by itself."""

    def name(field: str, *names: str) -> str | None:
        told = a_dict(fields.get(field))
        return next((str(told[one]) for one in names if told.get(one)), None)

    found = {
        "key": key,
        "project": name("project", "key"),
        "type": name("issuetype", "name"),
        "status": name("status", "name"),
        "priority": name("priority", "name"),
        "resolution": name("resolution", "name"),
        "assignee": name("assignee", "displayName"),
        "reporter": name("reporter", "displayName"),
        "parent": name("parent", "key"),
        "labels": [str(label) for label in a_list(fields.get("labels"))],
        "components": [str(a_dict(one).get("name")) for one in a_list(fields.get("components"))],
        "created": str(fields.get("created") or "") or None,
    }
    return {field: value for field, value in found.items() if value}


def open_jira(config: JiraConfig, credentials: AtlassianCredentials, surroundings: Surroundings) -> Jira:
    """A connector to the Jira that is configured."""
    transport = Transport(
        config.base_url,
        headers={"Accept": "application/json", **credentials.headers()},
        private=surroundings.private,
        patience=surroundings.patience,
    )
    return Jira(config, JiraApi(transport, cloud=config.is_cloud))


KIND = Kind("jira", JiraConfig, AtlassianCredentials, open_jira, MARKS)
