"""SharePoint and OneDrive, by Microsoft Graph: the document libraries of sites, and the drives of users.

Each drive is a stream. `delta` without a token lists all files and folders of a drive, flat, a page at a time; with the token that ends
it, what changed since (microsoft_delta.py). The version of a file is the hash that Microsoft keeps of its bytes, or its tag of contents.

A file is for those whom its permissions name: people and groups, whose members are looked up. Permissions are requested for the files that
`delta` names, many in one request (`$batch`): whether a file inherits them can't be seen in a listing. Those of the whole drive are
compared in every run, and other ones lead to a complete listing. Groups of a SharePoint site have no ids outside the site; they
are groups of that name here. What the whole organisation may open counts as public only with `organizationIsEveryone`.
"""

import hashlib
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import httpx
from pydantic import Field, SecretStr, field_validator, model_validator

from gristmill.connectors import markup
from gristmill.connectors.access_tokens import RefreshTokenRenewal, SignedInTransport, TokenRenewal
from gristmill.connectors.json_values import as_dict, as_list, parse_time
from gristmill.connectors.microsoft_delta import DeltaPage, DriveItems, parent_of
from gristmill.connectors.microsoft_readers import GrantedReaders
from gristmill.connectors.port import (
    Account,
    Audience,
    BaseUrl,
    Connector,
    ConnectorForm,
    ConnectorKind,
    ConnectorLimits,
    Json,
    ToolGroup,
    scope_problems,
)
from gristmill.connectors.shared_files import (
    CHECKPOINT_VERSION,
    UNKNOWN_READERS,
    DriveFilter,
    SharedFile,
    SharedFileChanges,
    SharedFileConnector,
    SharedFilePage,
)
from gristmill.connectors.sign_in import MICROSOFT_AUTHORITY, microsoft_flow
from gristmill.connectors.transport import FORBIDDEN, rate_limited
from gristmill.errors import SourceGone, Transient, Unreadable

DEFAULT_URL = "https://graph.microsoft.com/v1.0"
_FLOW = microsoft_flow("Files.Read.All Sites.Read.All")
_BATCH_SIZE = 20  # requests that Graph accepts in one


class MicrosoftDrivesConfig(DriveFilter):
    """What to follow in SharePoint and OneDrive."""

    tenant: str = Field(
        min_length=1,
        max_length=200,
        pattern=r"^[\w.-]+$",
        description="The id of the tenant, or one of its domains.",
    )
    sites: list[str] = Field(
        default=[], max_length=500, description="SharePoint sites by address: https://HOST/sites/NAME."
    )
    libraries: list[str] = Field(
        default=[], max_length=500, description="Document libraries of the sites by name; empty for all."
    )
    users: list[str] = Field(
        default=[],
        max_length=1000,
        description="Users whose OneDrive is followed, by user name: ann@acme.com.",
    )
    organization_is_everyone: bool = Field(
        default=False,
        description="Whether every user of Gristmill may see what the whole organisation may open.",
    )
    base_url: BaseUrl = Field(default=DEFAULT_URL, description="The address of Microsoft Graph.")
    authority: BaseUrl = Field(default=MICROSOFT_AUTHORITY, description="The address that issues tokens.")

    @field_validator("sites")
    @classmethod
    def _check_addresses(cls, sites: list[str]) -> list[str]:
        for site in sites:
            if urlsplit(site).scheme != "https" or not urlsplit(site).netloc:
                raise ValueError(f"{site!r} is not the address of a site: it begins with https://")
        return [site.rstrip("/") for site in sites]

    @model_validator(mode="after")
    def _check_scope(self) -> "MicrosoftDrivesConfig":
        if not self.sites and not self.users:
            raise ValueError("give sites, users, or both")
        return self


class MicrosoftDrivesCredentials(ConnectorForm):
    """A registered application with its secret, and a person's refresh token if it acts for them; or an access token."""

    client_id: str | None = Field(default=None, description="The application id of the registered app.")
    client_secret: SecretStr | None = Field(default=None, description="A client secret of the app.")
    refresh_token: SecretStr | None = Field(
        default=None,
        description="A refresh token, if the app reads on behalf of a person; the sign-in fills it in.",
    )
    token: SecretStr | None = Field(default=None, description="An access token. It expires after an hour.")

    @model_validator(mode="after")
    def _check_one_method(self) -> "MicrosoftDrivesCredentials":
        has_client = self.client_id is not None and self.client_secret is not None
        has_part = (
            self.client_id is not None or self.client_secret is not None or self.refresh_token is not None
        )
        if (self.token is not None) == has_part or has_part != has_client:
            raise ValueError("give clientId and clientSecret, with a refreshToken if needed, or a token")
        return self


class MicrosoftDrivesConnector(SharedFileConnector):
    """The drives that are followed in one tenant."""

    def __init__(self, config: MicrosoftDrivesConfig, http: SignedInTransport, max_bytes: int) -> None:
        super().__init__("sharepoint", config, max_bytes)
        self._config, self._http = config, http
        self._drives: dict[str, str] | None = None
        self._missing: list[tuple[str, str]] = []
        self._items: dict[str, DriveItems] = {}  # by drive
        # Of Entra ID; None for those whose members can't be asked for.
        self._groups: dict[str, ToolGroup | None] = {}

    async def close(self) -> None:
        """Close its connections."""
        await self._http.close()

    async def check(self) -> Account:
        """Whether the credentials can see what is configured."""
        return Account(self._config.tenant, f"{len(await self.find_drives())} drives")

    async def find_problems(self) -> list[str]:
        """Sites, libraries and users that can't be seen."""
        drives = await self.find_drives()
        problems = [
            problem
            for kind, name in self._missing
            for problem in scope_problems(kind, [name], is_empty=False, settings="")
        ]
        problems += self.unknown_drives
        is_empty = not drives and not problems
        return problems + scope_problems("drive", [], is_empty=is_empty, settings="sites or users")

    async def find_drives(self) -> Mapping[str, str]:
        """The libraries of the sites, and the drives of the users."""
        if self._drives is not None:
            return self._drives
        drives: dict[str, str] = {}
        names: set[str] = set()
        for address in self._config.sites:
            try:
                for drive in await self._site_drives(address):
                    names.add(str(drive.get("name")))
                    if not self._config.libraries or str(drive.get("name")) in self._config.libraries:
                        drives[str(drive["id"])] = f"{address} {drive.get('name')}"
            except (SourceGone, Unreadable) as error:
                self._note_missing("site", address, error)
        for user in self._config.users:
            try:
                drive = as_dict(
                    (
                        await self._http.get(f"/users/{quote(user, safe='@')}/drive", {"$select": "id,name"})
                    ).data
                )
                drives[str(drive["id"])] = user
            except (SourceGone, Unreadable) as error:
                self._note_missing("OneDrive of", user, error)
        self._missing += [("library", name) for name in self._config.libraries if name not in names]
        self._drives = drives
        return drives

    def _note_missing(self, kind: str, name: str, error: SourceGone | Unreadable) -> None:
        """A site can be locked, or archived: it is there, and can't be asked for its drives."""
        if isinstance(error, SourceGone) or error.code == FORBIDDEN:
            self._missing.append((kind, name))
        else:
            self.unknown_drives.append(
                f"The {kind} {name} can't be read at present. What was read of it stays. ({error.message})"
            )

    async def drive_readers_digest(self, drive: str) -> str:
        """Whom the permissions of a drive's root name."""
        try:
            permissions = await self._all_pages(f"/drives/{drive}/root/permissions", None)
        except (SourceGone, Unreadable):
            return ""
        readers = GrantedReaders.of(permissions)
        names = [readers.emails, readers.users, readers.groups, readers.site_groups]
        contents = json.dumps([readers.is_everyone, *(sorted(each) for each in names)])
        return hashlib.sha256(contents.encode()).hexdigest()[:24]

    async def list_files(self, drive: str, cursor: str | None) -> SharedFilePage:
        """A page of the files of a drive; the cursor is the address of the page."""
        page = await self._items_of(drive).read_page(cursor)
        return SharedFilePage(
            await self._describe_files(drive, page), page.at, page.next_link, page.delta_link
        )

    async def read_changes(self, drive: str, token: str) -> SharedFileChanges:
        """What changed in a drive; the token is the address of the page."""
        page = await self._items_of(drive).read_page(token)
        following = page.next_link or page.delta_link
        if following is None:
            raise Unreadable("Microsoft Graph returned changes without a link.", code="connector_refused")
        files = [] if page.has_root_changed else await self._describe_files(drive, page)
        return SharedFileChanges(
            files,
            page.at,
            following,
            has_more=page.next_link is not None,
            gone_ids=page.gone_ids | page.files.keys() - {file.id for file in files},
            folders=page.folders,
            must_list=page.has_root_changed,
        )

    async def find_file(self, drive: str, file_id: str) -> SharedFile:
        """One file as it is now."""
        item = await self._items_of(drive).find(file_id)
        audiences = await self._audiences_of(drive, [file_id])
        if file_id not in audiences:
            raise SourceGone("The file is no longer there.")
        return await self._describe_file(drive, item, audiences[file_id])

    async def read_file(self, locator: Json) -> AsyncIterator[bytes]:
        """The bytes of a file. Graph redirects to a short-lived address, which gets no token."""
        async for piece in self._http.stream(f"/drives/{locator['drive']}/items/{locator['id']}/content"):
            yield piece

    # ── drives and folders ───────────────────────────────────────────────────────────────────────────────

    async def _site_drives(self, address: str) -> list[dict[str, Any]]:
        url = urlsplit(address)
        path = f"/sites/{url.netloc}:{quote(unquote(url.path))}" if url.path else f"/sites/{url.netloc}"
        site = as_dict((await self._http.get(path, {"$select": "id"})).data)
        return await self._all_pages(f"/sites/{site.get('id')}/drives", {"$select": "id,name"})

    async def _all_pages(
        self, path: str, params: Mapping[str, str | int] | None, **headers: str
    ) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = []
        following: str | None = path
        while following:
            data = as_dict((await self._http.get(following, params, **headers)).data)
            entries += [as_dict(entry) for entry in as_list(data.get("value"))]
            following, params = str(data.get("@odata.nextLink") or "") or None, None
        return entries

    def _items_of(self, drive: str) -> DriveItems:
        return self._items.setdefault(drive, DriveItems(self._http, drive))

    async def _describe_files(self, drive: str, page: DeltaPage) -> list[SharedFile]:
        """The files of a page, without those that are gone by now."""
        audiences = await self._audiences_of(drive, list(page.files))
        return [
            await self._describe_file(drive, page.files[item_id], audience)
            for item_id, audience in audiences.items()
        ]

    async def _describe_file(self, drive: str, item: dict[str, Any], audience: Audience) -> SharedFile:
        item_id, file = str(item["id"]), as_dict(item.get("file"))
        name = markup.strip_unstorable(str(item.get("name") or item_id))
        size = item.get("size")
        version = as_dict(file.get("hashes")).get("quickXorHash") or item.get("cTag") or item.get("eTag")
        return SharedFile(
            item_id,
            title=name,
            folder=await self._items_of(drive).folders.path_of(parent_of(item)),
            name=name,
            version=str(version),
            audience=audience,
            size=size if isinstance(size, int) else None,
            updated_at=parse_time(item.get("lastModifiedDateTime")),
            url=str(item.get("webUrl") or "") or None,
            media_type=str(file.get("mimeType") or "") or None,
            locator={"drive": drive, "id": item_id},
        )

    # ── permissions ──────────────────────────────────────────────────────────────────────────────────────

    async def _audiences_of(self, drive: str, item_ids: Sequence[str]) -> dict[str, Audience]:
        """Who may read each file; without those that are gone by now."""
        audiences: dict[str, Audience] = {}
        for start in range(0, len(item_ids), _BATCH_SIZE):
            chunk = item_ids[start : start + _BATCH_SIZE]
            requests = [
                {"id": str(index), "method": "GET", "url": f"/drives/{drive}/items/{item_id}/permissions"}
                for index, item_id in enumerate(chunk)
            ]
            data = as_dict((await self._http.post("/$batch", {"requests": requests})).data)
            for response in map(as_dict, as_list(data.get("responses"))):
                item_id = chunk[int(str(response.get("id")))]
                audience = await self._audience_in(response)
                if audience is not None:
                    audiences[item_id] = audience
        return audiences

    async def _find_group(self, group: str, name: str) -> ToolGroup | None:
        """A group of Entra ID with the people in it, and in groups within it; None if the app may not ask for them."""
        if group not in self._groups:
            path = f"/groups/{group}/transitiveMembers/microsoft.graph.user"
            # To choose the users among the members is an advanced query, which needs the count and the header.
            params = {"$select": "id,mail,userPrincipalName", "$top": 999, "$count": "true"}
            try:
                members = await self._all_pages(path, params, ConsistencyLevel="eventual")
            except (SourceGone, Unreadable):
                self._groups[group] = None
            else:
                addresses = {
                    str(user.get("mail") or user.get("userPrincipalName") or "").lower() for user in members
                }
                emails = frozenset(address for address in addresses if "@" in address)
                self._groups[group] = ToolGroup(group, name, emails)
        return self._groups[group]

    async def _audience_in(self, response: dict[str, Any]) -> Audience | None:
        status, body = int(response.get("status") or 0), as_dict(response.get("body"))
        match status:
            case 200:
                permissions = [as_dict(entry) for entry in as_list(body.get("value"))]
                if more := body.get("@odata.nextLink"):
                    permissions += await self._all_pages(str(more), None)
                readers = GrantedReaders.of(permissions)
                groups = [await self._find_group(group, name) for group, name in readers.groups.items()]
                return readers.audience(
                    everybody=readers.is_everyone and self._config.organization_is_everyone,
                    tool_groups=[group for group in groups if group is not None],
                )
            case 404 | 410:
                return None
            case 429 | 503:
                headers = {str(name): str(value) for name, value in as_dict(response.get("headers")).items()}
                raise rate_limited(httpx.Headers(headers), "Microsoft Graph")
            case _ if status >= 500:
                raise Transient(f"Microsoft Graph returned status {status}.", code="connector_unavailable")
            case _:
                return Audience(UNKNOWN_READERS, complete=False)


def _open(
    config: MicrosoftDrivesConfig, credentials: MicrosoftDrivesCredentials, limits: ConnectorLimits
) -> Connector:
    headers: dict[str, str] = {}
    renewal: TokenRenewal | None = None
    if credentials.token is not None:
        headers["Authorization"] = f"Bearer {credentials.token.get_secret_value()}"
    elif credentials.client_secret is not None:
        graph = urlsplit(config.base_url)
        form = {
            "client_id": credentials.client_id or "",
            "client_secret": credentials.client_secret.get_secret_value(),
            "scope": f"{graph.scheme}://{graph.netloc}/.default",
            "grant_type": "client_credentials",
        }
        url = _FLOW.token_url(config)
        http = limits.transport(url, {})
        if credentials.refresh_token is None:
            renewal = TokenRenewal(http, url, lambda: form)
        else:
            form["grant_type"] = "refresh_token"
            token = credentials.refresh_token.get_secret_value()
            renewal = RefreshTokenRenewal(http, url, lambda: form, token, limits.secrets)
    signed_in = SignedInTransport(limits.transport(config.base_url, headers), renewal)
    return MicrosoftDrivesConnector(config, signed_in, limits.attachment_limit)


KIND = ConnectorKind(
    "sharepoint",
    MicrosoftDrivesConfig,
    MicrosoftDrivesCredentials,
    _open,
    CHECKPOINT_VERSION,
    "SharePoint, OneDrive",
    _FLOW,
    reports_changes=True,
)
