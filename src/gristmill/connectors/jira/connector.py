"""Jira: issues with their comments and attachments, on Cloud, Server and Data Center.

    stream              documents                                   named by
    (project, issue)    issues with comments; attachments as files  the issue's id, which stays when it is moved or renamed

Issues are read by their time of change, in minutes of the user's own time zone (listing/by_minute.py). An issue that moved to
another project is found there by its change, and verified by its id before it is pruned. Comments that are visible only to a
group or a role are left out: users who see the issue may not see them. `access.py` resolves who may see what.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import replace
from typing import Any

from pydantic import Field, field_validator

from gristmill.connectors import markup
from gristmill.connectors.atlassian import AtlassianConfig, AtlassianCredentials
from gristmill.connectors.jira.access import JiraAccess
from gristmill.connectors.jira.api import FIELDS, IDS_PAGE_SIZE, PAGE_SIZE, JiraApi
from gristmill.connectors.json_values import as_dict, as_list, parse_time
from gristmill.connectors.listing import by_updated_at
from gristmill.connectors.listing.by_minute import (
    ByMinuteListing,
    MinuteQuery,
    QueryPage,
    QueryRow,
    QueryWindow,
    UserTimeZone,
)
from gristmill.connectors.port import (
    AccessUpdate,
    Account,
    Attachment,
    Audience,
    Batch,
    Checkpoint,
    Checkpoints,
    Connector,
    ConnectorKind,
    ConnectorLimits,
    Document,
    DocumentRef,
    Stream,
)
from gristmill.connectors.streams import FollowedNames, errors_as_problems
from gristmill.errors import SourceGone, Unreadable

CHECKPOINT_VERSION = 1
ISSUE = "issue"
_MINUTE_FORMAT = "%Y-%m-%d %H:%M"
_QUOTED = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'")
_LONG_TEXT = 50_000  # characters; longer texts are converted in a thread


class JiraConfig(AtlassianConfig):
    """What to follow in Jira."""

    projects: list[str] = Field(
        default=[],
        max_length=500,
        description="Projects, as keys or numbers; empty for all that the credentials can see.",
    )
    jql: str | None = Field(
        default=None, max_length=2000, description="Which of their issues to follow, as JQL without ORDER BY."
    )
    attachments: bool = Field(default=True, description="Whether to store attachments below their issues.")

    @field_validator("jql")
    @classmethod
    def _check_single_condition(cls, jql: str | None) -> str | None:
        """The JQL is put in brackets among other conditions, so it must be a single one."""
        if jql is None or not jql.strip():
            return None
        plain = _QUOTED.sub("", jql)
        depth = 0
        for character in plain:
            depth += (character == "(") - (character == ")")
            if depth < 0:
                break
        if depth != 0 or '"' in plain or "'" in plain:
            raise ValueError("Brackets and quotes in the JQL must be closed.")
        if re.search(r"\border\s+by\b", plain, re.I):
            raise ValueError("The JQL must not have an ORDER BY: issues are read by their time of change.")
        return jql.strip()


class JiraConnector(Connector):
    """One Jira, with what is followed of it."""

    def __init__(self, config: JiraConfig, api: JiraApi) -> None:
        super().__init__(api.transport)
        self._config, self._api = config, api
        self._access = JiraAccess(api)
        self._projects: dict[str, dict[str, Any]] | None = None
        self._zone: UserTimeZone | None = None
        self._names = FollowedNames("project", "projects")
        self._site = "" if config.is_gateway else config.base_url

    async def check(self) -> Account:
        """Who the credentials belong to, and how many projects are followed."""
        account = await self._api.current_user()
        return Account(str(account.get("displayName") or "?"), f"{len(await self._find_projects())} projects")

    async def find_problems(self) -> list[str]:
        """Projects that Jira does not show."""
        return self._names.problems(await self._find_projects())

    async def estimate(self, checkpoints: Checkpoints) -> int | None:
        """How many issues there are, in the first run."""
        if checkpoints:
            return None
        total = 0
        for number in await self._find_projects():
            total += await self._api.count(self._jql(number))
        return total

    async def sync(self, checkpoints: Checkpoints, finished: Collection[Stream] = ()) -> AsyncIterator[Batch]:
        """What changed in each project."""
        for number in await self._find_projects():
            stream = Stream(f"project:{number}", ISSUE)
            if stream not in finished:
                async for batch in errors_as_problems(
                    stream, self._read_stream(number, stream, checkpoints.get(stream))
                ):
                    yield batch

    async def fetch(self, ref: DocumentRef) -> Document:
        """One issue as it is now, in whichever project; SourceGone when it is not followed."""
        number = ref.source_id.partition(":")[2]
        issue = await self._api.issue(number)
        project = str(as_dict(_fields(issue).get("project")).get("id") or "")
        if str(issue.get("id")) != number or not project:
            raise Unreadable(f"Jira returned something else than {ref.source_id}.", code="connector_refused")
        if project not in await self._find_projects():
            raise SourceGone(f"{ref.source_id} is in a project that is not followed.")
        if self._config.jql is not None:
            matches, _, _ = await self._api.search(f"id = {number} AND ({self._config.jql})", ["id"], 1, None)
            if not matches:
                raise SourceGone(f"{ref.source_id} is not among the issues that are followed.")
        return await self.build_document(issue, Stream(f"project:{project}", ISSUE))

    async def resolve_access(self, audience_keys: Sequence[str]) -> AsyncIterator[AccessUpdate]:
        """Who sees each project and security level now."""
        wanted_keys = set(audience_keys)
        resolver = JiraAccess(self._api)
        for number, project in (await self._find_projects()).items():
            keys = {key for key in wanted_keys if key.split(":")[1] == number}
            if keys:
                yield AccessUpdate(await resolver.audiences(project, keys))

    async def download(self, attachment: Attachment) -> AsyncIterator[bytes]:
        """The bytes of an attachment."""
        async for piece in self._api.attachment_bytes(attachment.locator):
            yield piece

    # ── projects ───────────────────────────────────────────────────────────────────────────────────────────

    async def _find_projects(self) -> dict[str, dict[str, Any]]:
        if self._projects is None:
            projects: dict[str, dict[str, Any]] = {}
            if not self._config.projects:
                async for project in self._api.projects():
                    projects[str(project.get("id"))] = project
            for key in self._config.projects:
                with self._names.looking_up(key):
                    project = await self._api.project(key)
                    projects[str(project.get("id"))] = project
            self._names.require_any(projects)
            self._projects = dict(sorted(projects.items()))
        return self._projects

    def _jql(self, number: str) -> str:
        filtered = "" if self._config.jql is None else f" AND ({self._config.jql})"
        return f"project = {number}{filtered}"

    async def _read_stream(
        self, number: str, stream: Stream, checkpoint: Checkpoint | None
    ) -> AsyncIterator[Batch]:
        if self._zone is None:
            account = await self._api.current_user()
            self._zone = UserTimeZone(
                account.get("timeZone") if isinstance(account.get("timeZone"), str) else None
            )
        project = (await self._find_projects())[number]
        query = _IssueQuery(self, self._api, self._jql(number), stream, self._zone)
        known_keys: set[str] = set()
        async for batch in by_updated_at.read(
            stream, CHECKPOINT_VERSION, checkpoint, ByMinuteListing(query, checkpoint)
        ):
            batch_keys = {document.audience for document in batch.documents}
            # Even a run without documents resolves who sees those of earlier runs.
            audiences = await self._new_audiences(project, batch_keys, known_keys)
            known_keys |= {audience.key for audience in audiences}
            yield replace(batch, audiences=audiences)

    async def _new_audiences(
        self, project: dict[str, Any], keys: set[str], known_keys: set[str]
    ) -> list[Audience]:
        if known_keys and keys <= known_keys:
            return []
        return await self._access.audiences(project, keys)

    # ── one issue ────────────────────────────────────────────────────────────────────────────────────────

    async def _site_url(self) -> str:
        self._site = self._site or (await self._api.site_url()).rstrip("/")
        return self._site

    async def build_document(self, issue: dict[str, Any], stream: Stream) -> Document:
        """An issue with all its comments."""
        number, fields = str(issue.get("id")), _fields(issue)
        comment_page = as_dict(fields.get("comment"))
        comments = as_list(comment_page.get("comments"))
        if "comment" not in fields or int(comment_page.get("total") or 0) > len(comments):
            comments = await self._api.comments(number)
        security = as_dict(fields.get("security"))
        level = security.get("id", "unknown") if security else None
        key = str(issue.get("key") or number)
        return Document(
            DocumentRef(f"issue:{number}", stream, {"id": number}),
            title=f"{key} {markup.strip_unstorable(str(fields.get('summary') or ''))}".strip(),
            body=await self._issue_body(fields, comments),
            audience=stream.scope if level is None else f"{stream.scope}:level:{level}",
            url=f"{await self._site_url()}/browse/{key}",
            updated_at=parse_time(fields.get("updated")),
            metadata=_metadata(key, fields),
            attachments=tuple(self._attachments(fields)),
        )

    async def _issue_body(self, fields: dict[str, Any], comments: Sequence[Any]) -> str:
        parts = [
            f"# {markup.strip_unstorable(str(fields.get('summary') or ''))}".strip(),
            await self._to_markdown(fields.get("description")),
        ]
        for entry in comments:
            comment = as_dict(entry)
            if comment.get("visibility"):
                continue
            text = await self._to_markdown(comment.get("body"))
            if text:
                author = as_dict(comment.get("author")).get("displayName") or "Unknown"
                day = str(comment.get("created") or "")[:10]
                parts.append(f"**{markup.strip_unstorable(str(author))}**, {day}:\n\n{text}")
        return "\n\n".join(part for part in parts if part.strip("# "))

    async def _to_markdown(self, value: object) -> str:
        """Wiki markup where it is a string, else Atlassian's document format."""
        if value is None:
            return ""
        if not isinstance(value, str):
            return await asyncio.to_thread(markup.adf, value)
        return markup.wiki(value) if len(value) < _LONG_TEXT else await asyncio.to_thread(markup.wiki, value)

    def _attachments(self, fields: dict[str, Any]) -> list[Attachment]:
        if not self._config.attachments:
            return []
        attachments: list[Attachment] = []
        for entry in as_list(fields.get("attachment")):
            file = as_dict(entry)
            number = str(file.get("id"))
            name = markup.strip_unstorable(str(file.get("filename") or number))
            size = file.get("size")
            attachments.append(
                Attachment(
                    f"attachment:{number}",
                    name,
                    size if isinstance(size, int) else None,
                    str(file.get("mimeType") or "") or None,
                    {"id": number, "content": str(file.get("content") or "")},
                )
            )
        return sorted(attachments, key=lambda attachment: attachment.source_id)


class _IssueQuery(MinuteQuery):
    """The issues of a project, for `listing.by_minute`."""

    def __init__(
        self, jira: JiraConnector, api: JiraApi, jql: str, stream: Stream, zone: UserTimeZone
    ) -> None:
        self._jira, self._api, self._jql, self._stream, self._zone = jira, api, jql, stream, zone

    async def run_query(self, window: QueryWindow, cursor: str | None) -> QueryPage:
        """A page of issues that changed in a window."""
        conditions = [self._jql]
        if window.since is not None:
            conditions.append(f'updated >= "{self._zone.earliest_text(window.since, _MINUTE_FORMAT)}"')
        if window.before is not None:
            conditions.append(f'updated < "{self._zone.latest_text(window.before, _MINUTE_FORMAT)}"')
        order = "key DESC" if window.descending else "updated ASC, key ASC"
        fields, size = (["updated"], IDS_PAGE_SIZE) if window.ids_only else (FIELDS, PAGE_SIZE)
        jql = f"{' AND '.join(conditions)} ORDER BY {order}"
        issues, more, now = await self._api.search(jql, fields, size, cursor)
        return QueryPage([self._row(issue, light=window.ids_only) for issue in issues], more, now)

    async def fetch_documents(self, row: QueryRow) -> Sequence[Document]:
        """The issue with its comments."""
        issue = row.data if row.data is not None else await self._api.issue(row.id)
        return [await self._jira.build_document(issue, self._stream)]

    def _row(self, issue: dict[str, Any], *, light: bool) -> QueryRow:
        number = str(issue.get("id"))
        updated_at = parse_time(_fields(issue).get("updated"))
        if updated_at is None:
            raise Unreadable("Jira returned an issue without a time of change.", code="connector_refused")
        source_id = f"issue:{number}"
        return QueryRow(
            number,
            updated_at,
            DocumentRef(source_id, self._stream, {"id": number}),
            None if light else issue,
        )


def _fields(issue: dict[str, Any]) -> dict[str, Any]:
    return as_dict(issue.get("fields"))


def _metadata(key: str, fields: dict[str, Any]) -> dict[str, Any]:
    """Fields for filters and display; nothing that changes by itself."""

    def name_of(field: str, *names: str) -> str | None:
        value = as_dict(fields.get(field))
        return next((str(value[key_name]) for key_name in names if value.get(key_name)), None)

    metadata = {
        "key": key,
        "project": name_of("project", "key"),
        "type": name_of("issuetype", "name"),
        "status": name_of("status", "name"),
        "priority": name_of("priority", "name"),
        "resolution": name_of("resolution", "name"),
        "assignee": name_of("assignee", "displayName"),
        "reporter": name_of("reporter", "displayName"),
        "parent": name_of("parent", "key"),
        "labels": [str(label) for label in as_list(fields.get("labels"))],
        "components": [
            str(as_dict(component).get("name")) for component in as_list(fields.get("components"))
        ],
        "created": str(fields.get("created") or "") or None,
    }
    return {field: value for field, value in metadata.items() if value}


def _open(config: JiraConfig, credentials: AtlassianCredentials, limits: ConnectorLimits) -> Connector:
    transport = limits.transport(config.base_url, credentials.headers())
    return JiraConnector(config, JiraApi(transport, cloud=config.is_cloud))


KIND = ConnectorKind("jira", JiraConfig, AtlassianCredentials, _open, CHECKPOINT_VERSION, "Jira")
