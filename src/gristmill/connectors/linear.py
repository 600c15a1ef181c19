"""Linear: the issues of teams with their comments and files, by its GraphQL API.

Each team is a stream. The listing names every issue, archived ones included, with the time of its last change and of its latest
comment, which are its mark. What is in the trash counts as deleted. Files that were uploaded into texts become attachments.

Issues of a private team are for its members. Those of other teams are for all members of the workspace without guests, or for
everyone here with `publicIsEveryone`. Access lists name the team or the workspace as a group.
"""

import re
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import Field, SecretStr

from gristmill.connectors import markup
from gristmill.connectors.json_values import as_dict, as_list, parse_time
from gristmill.connectors.listing import by_mark
from gristmill.connectors.listing.by_mark import MarkedPage
from gristmill.connectors.port import (
    AccessUpdate,
    Account,
    Attachment,
    Audience,
    BaseUrl,
    Batch,
    Checkpoints,
    Connector,
    ConnectorForm,
    ConnectorKind,
    ConnectorLimits,
    Document,
    DocumentRef,
    ListedDocument,
    Stream,
    ToolGroup,
    ToolUser,
    scope_problems,
)
from gristmill.connectors.streams import errors_as_problems
from gristmill.connectors.transport import CredentialsRejected, Transport, parse, rate_limited
from gristmill.errors import SourceGone, Unreadable

CHECKPOINT_VERSION = 1
ISSUE = "issue"
DEFAULT_URL = "https://api.linear.app/graphql"
UPLOADS_URL = "https://uploads.linear.app"
_UPLOAD = re.compile(r"!?\[([^\]]*)\]\((https://uploads\.linear\.app/[^)\s]+)\)")
_PAGE = "pageInfo { hasNextPage endCursor }"
_TEAMS = f"query Teams($after: String) {{ teams(first: 100, after: $after) {{ nodes {{ id key name private }} {_PAGE} }} }}"
_USERS = f"query Users($after: String) {{ users(first: 200, after: $after) {{ nodes {{ id name email active guest }} {_PAGE} }} }}"
_MEMBERS = (
    "query Members($id: String!, $after: String) { team(id: $id) { members(first: 200, after: $after)"
    f" {{ nodes {{ id name email active guest }} {_PAGE} }} }} }}"
)
_LIST = (
    "query List($team: ID!, $after: String) { issues(first: 100, after: $after, includeArchived: true, orderBy: createdAt,"
    " filter: { team: { id: { eq: $team } } }) { nodes { id updatedAt trashed"
    f" comments(first: 1, orderBy: updatedAt) {{ nodes {{ id updatedAt }} }} }} {_PAGE} }} }}"
)
_ISSUE = (
    "query Issue($id: ID!) { issues(first: 1, includeArchived: true, filter: { id: { eq: $id } }) { nodes { id identifier title"
    " description url createdAt updatedAt trashed priorityLabel state { name } assignee { name } creator { name }"
    " labels(first: 50) { nodes { name } } project { name } team { id key }"
    " latest: comments(first: 1, orderBy: updatedAt) { nodes { id updatedAt } } } } }"
)
_COMMENTS = (
    "query Comments($id: ID!, $after: String) { comments(first: 100, after: $after, orderBy: createdAt,"
    f" filter: {{ issue: {{ id: {{ eq: $id }} }} }}) {{ nodes {{ id body createdAt user {{ name }} }} {_PAGE} }} }}"
)


class LinearConfig(ConnectorForm):
    """What to follow in Linear."""

    teams: list[str] = Field(
        default=[],
        max_length=500,
        description="Teams by key, name or id; empty for all that the key can see.",
    )
    attachments: bool = Field(default=True, description="Whether to store files below their issues.")
    public_is_everyone: bool = Field(
        default=False, description="Whether every user of Gristmill may see teams that are not private."
    )
    base_url: BaseUrl = Field(default=DEFAULT_URL, description="The address of Linear's API.")


class LinearCredentials(ConnectorForm):
    """An API key or an access token."""

    token: SecretStr = Field(description="A personal API key (lin_api_…), or an access token of OAuth.")


@dataclass(frozen=True)
class LinearTeam:
    """A team; its id stays when it is renamed."""

    id: str
    key: str
    name: str
    is_private: bool

    @property
    def scope(self) -> str:
        """Its scope, which is also the key of its audience."""
        return f"team:{self.id}"


class LinearConnector(Connector):
    """One workspace, with what is followed of it."""

    def __init__(self, config: LinearConfig, http: Transport, files: Transport) -> None:
        super().__init__(http, files)
        self._config, self._http, self._files = config, http, files
        self._teams: dict[str, LinearTeam] | None = None
        self._missing: list[str] = []
        self._everyone: ToolGroup | None = None

    async def check(self) -> Account:
        """Whose key it is."""
        data = await self._query("query Viewer { viewer { name } organization { name } }")
        name = str(as_dict(data.get("organization")).get("name") or "Linear")
        viewer = str(as_dict(data.get("viewer")).get("name") or "")
        return Account(name, f"{viewer}, {len(await self._find_teams())} teams")

    async def find_problems(self) -> list[str]:
        """Teams that Linear does not show."""
        teams = await self._find_teams()
        return scope_problems("team", self._missing, is_empty=not teams, settings="teams")

    async def sync(self, checkpoints: Checkpoints, finished: Collection[Stream] = ()) -> AsyncIterator[Batch]:
        """A listing of the issues of each team."""
        for team in (await self._find_teams()).values():
            stream = Stream(team.scope, ISSUE)
            if stream in finished:
                continue

            async def fetch_page(cursor: str | None, team: LinearTeam = team) -> MarkedPage:
                return await self._list(team, cursor)

            batches = by_mark.read(
                stream, CHECKPOINT_VERSION, checkpoints.get(stream), fetch_page, [await self._audience(team)]
            )
            async for batch in errors_as_problems(stream, batches):
                yield batch

    async def fetch(self, ref: DocumentRef) -> Document:
        """One issue with its comments, in whichever team."""
        issue_id = str(ref.locator["id"])
        data = await self._query(_ISSUE, id=issue_id)
        nodes = as_list(as_dict(data.get("issues")).get("nodes"))
        issue = as_dict(nodes[0]) if nodes else {}
        team = (await self._find_teams()).get(str(as_dict(issue.get("team")).get("id")))
        if not issue or issue.get("trashed") or team is None:
            raise SourceGone("The issue is no longer there, or its team is not followed.")
        comments = [comment async for comment in self._pages(_COMMENTS, "comments", id=issue_id)]
        title = markup.strip_unstorable(f"{issue.get('identifier')} {issue.get('title')}")
        body = _body(issue, comments)
        return Document(
            DocumentRef(f"issue:{issue_id}", Stream(team.scope, ISSUE), {"id": issue_id}),
            title=title,
            body=body,
            audience=team.scope,
            url=str(issue.get("url") or "") or None,
            updated_at=parse_time(issue.get("updatedAt")),
            metadata=_metadata(issue, team),
            attachments=tuple(_uploads(body)) if self._config.attachments else (),
            mark=_mark(issue, as_dict(issue.get("latest"))),
        )

    async def resolve_access(self, audience_keys: Sequence[str]) -> AsyncIterator[AccessUpdate]:
        """Who is in each team now."""
        for team in (await self._find_teams()).values():
            if team.scope in audience_keys:
                yield AccessUpdate([await self._audience(team)])

    async def download(self, attachment: Attachment) -> AsyncIterator[bytes]:
        """The bytes of an uploaded file."""
        async for piece in self._files.stream(str(attachment.locator["url"])):
            yield piece

    # ── teams ────────────────────────────────────────────────────────────────────────────────────────────

    async def _find_teams(self) -> dict[str, LinearTeam]:
        if self._teams is None:
            teams = [
                LinearTeam(str(team["id"]), str(team["key"]), str(team["name"]), bool(team.get("private")))
                async for team in self._pages(_TEAMS, "teams")
            ]
            if self._config.teams:
                names = {name.lower() for name in self._config.teams}
                teams = [
                    team for team in teams if names & {team.id.lower(), team.key.lower(), team.name.lower()}
                ]
                known = {name.lower() for team in teams for name in (team.id, team.key, team.name)}
                self._missing = [name for name in self._config.teams if name.lower() not in known]
            self._teams = {team.id: team for team in sorted(teams, key=lambda team: team.id)}
        return self._teams

    async def _audience(self, team: LinearTeam) -> Audience:
        if not team.is_private and self._config.public_is_everyone:
            return Audience(team.scope, everybody=True)
        group = await self._team_members(team) if team.is_private else await self._workspace_members()
        return Audience(team.scope, tool_groups=[group])

    async def _team_members(self, team: LinearTeam) -> ToolGroup:
        try:
            members = [user async for user in self._pages(_MEMBERS, "team", "members", id=team.id)]
        except (SourceGone, Unreadable):
            return ToolGroup(team.scope, team.name, complete=False)
        return ToolGroup.of_users(team.scope, team.name, _people(members, with_guests=True))

    async def _workspace_members(self) -> ToolGroup:
        if self._everyone is None:
            group_id, name = "workspace", "All members of the workspace"
            try:
                users = [user async for user in self._pages(_USERS, "users")]
            except (SourceGone, Unreadable):
                return ToolGroup(group_id, name, complete=False)
            self._everyone = ToolGroup.of_users(group_id, name, _people(users, with_guests=False))
        return self._everyone

    async def _list(self, team: LinearTeam, cursor: str | None) -> MarkedPage:
        data = as_dict((await self._query(_LIST, team=team.id, after=cursor)).get("issues"))
        entries = [
            ListedDocument(
                DocumentRef(f"issue:{issue['id']}", Stream(team.scope, ISSUE), {"id": str(issue["id"])}),
                mark=_mark(issue, as_dict(issue.get("comments"))),
            )
            for issue in map(as_dict, as_list(data.get("nodes")))
            if not issue.get("trashed")
        ]
        return MarkedPage(entries, _next_cursor(data))

    # ── requests ─────────────────────────────────────────────────────────────────────────────────────────

    async def _pages(self, query: str, *path: str, **variables: str) -> AsyncIterator[dict[str, Any]]:
        cursor: str | None = None
        while True:
            data: dict[str, Any] = await self._query(query, **variables, after=cursor)
            for name in path:
                data = as_dict(data.get(name))
            for node in as_list(data.get("nodes")):
                yield as_dict(node)
            cursor = _next_cursor(data)
            if cursor is None:
                return

    async def _query(self, query: str, **variables: str | None) -> dict[str, Any]:
        response = await self._http.post("", {"query": query, "variables": variables})
        data = parse(dict[str, Any], response.data, "Linear")
        errors = [as_dict(error) for error in as_list(data.get("errors"))]
        if not errors:
            return as_dict(data.get("data"))
        codes = {str(as_dict(error.get("extensions")).get("code") or "unknown") for error in errors}
        if "RATELIMITED" in codes:
            raise rate_limited(response.headers, "Linear")
        if "AUTHENTICATION_ERROR" in codes:
            raise CredentialsRejected("Linear rejects the key. Enter a new one, then sync again.")
        code = "connector_forbidden" if "FORBIDDEN" in codes else "connector_refused"
        raise Unreadable(f"Linear refuses the request ({', '.join(sorted(codes))}).", code=code)


def _next_cursor(connection: dict[str, Any]) -> str | None:
    page = as_dict(connection.get("pageInfo"))
    return str(page["endCursor"]) if page.get("hasNextPage") and page.get("endCursor") else None


def _mark(issue: dict[str, Any], comments: dict[str, Any]) -> str:
    latest = [as_dict(comment) for comment in as_list(comments.get("nodes"))]
    return " ".join(
        [
            str(issue.get("updatedAt")),
            *(f"{comment.get('id')} {comment.get('updatedAt')}" for comment in latest),
        ]
    )


def _people(users: Iterable[dict[str, Any]], *, with_guests: bool) -> list[ToolUser]:
    return [
        ToolUser(
            str(user["id"]), str(user.get("name") or user["id"]), str(user.get("email") or "").lower() or None
        )
        for user in users
        if user.get("active") is not False and (with_guests or not user.get("guest"))
    ]


def _body(issue: dict[str, Any], comments: Sequence[dict[str, Any]]) -> str:
    parts = [f"# {issue.get('title') or ''}", str(issue.get("description") or "")]
    for comment in sorted(comments, key=lambda entry: (str(entry.get("createdAt")), str(entry.get("id")))):
        author = as_dict(comment.get("user")).get("name") or "Unknown"
        parts.append(
            f"**{author}**, {str(comment.get('createdAt') or '')[:10]}:\n\n{comment.get('body') or ''}"
        )
    return markup.strip_unstorable("\n\n".join(part for part in parts if part.strip("# ")))


def _uploads(body: str) -> list[Attachment]:
    """The files that a text links to, each once."""
    uploads = {match[2]: match[1] for match in _UPLOAD.finditer(body)}
    return [
        Attachment(url, name or url.rpartition("/")[2], locator={"url": url})
        for url, name in sorted(uploads.items())
    ]


def _metadata(issue: dict[str, Any], team: LinearTeam) -> dict[str, Any]:
    metadata = {
        "tool": "linear",
        "type": ISSUE,
        "key": issue.get("identifier"),
        "team": team.key,
        "status": as_dict(issue.get("state")).get("name"),
        "priority": issue.get("priorityLabel"),
        "assignee": as_dict(issue.get("assignee")).get("name"),
        "creator": as_dict(issue.get("creator")).get("name"),
        "project": as_dict(issue.get("project")).get("name"),
        "labels": sorted(
            str(as_dict(label).get("name")) for label in as_list(as_dict(issue.get("labels")).get("nodes"))
        ),
    }
    return {name: value for name, value in metadata.items() if value}


def _open(config: LinearConfig, credentials: LinearCredentials, limits: ConnectorLimits) -> Connector:
    token = credentials.token.get_secret_value()
    # Personal keys are sent as they are, tokens of OAuth as bearer tokens.
    headers = {"Authorization": token if token.startswith("lin_api_") else f"Bearer {token}"}
    return LinearConnector(
        config, limits.transport(config.base_url, headers), limits.transport(UPLOADS_URL, headers)
    )


KIND = ConnectorKind("linear", LinearConfig, LinearCredentials, _open, CHECKPOINT_VERSION, "Linear")
