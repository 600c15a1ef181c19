"""Google Drive: the files of an account, those shared with it, and shared drives.

    stream         files
    (drive:my)     of the account itself, and shared with it
    (drive:{id})   of a shared drive

Google's own formats are exported: documents as markdown without pictures, spreadsheets as xlsx, presentations as text. Their version is the time
of their last change; that of other files is the hash of their bytes. What is in the trash counts as deleted. After the first listing,
`changes.list` says what changed; the people who may read a whole shared drive are compared in every run.

A file is for those whom its permissions name: people, groups, and everyone if it is public. A domain counts as everyone if
`domains` names it. Permissions by link are ignored, unless `linkIsPublic`. A file of a shared drive has the drive's permissions,
unless the ids of its own differ.
"""

import hashlib
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import Any

from pydantic import Field, SecretStr, model_validator

from gristmill.connectors.access_tokens import (
    RefreshTokenRenewal,
    ServiceAccountKey,
    SignedInTransport,
    SignInNeeded,
    TokenRenewal,
)
from gristmill.connectors.google_files import (
    MY_DRIVE,
    NATIVE,
    PERMISSION_FIELDS,
    GoogleFiles,
    clean_name,
    iter_entries,
    parent_of,
    without_pictures,
)
from gristmill.connectors.json_values import as_dict, as_list, parse_time
from gristmill.connectors.port import (
    Account,
    Audience,
    BaseUrl,
    Connector,
    ConnectorForm,
    ConnectorKind,
    ConnectorLimits,
    Json,
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
from gristmill.connectors.sign_in import google_flow
from gristmill.connectors.transport import FORBIDDEN
from gristmill.errors import SourceGone, Unreadable

DEFAULT_URL = "https://www.googleapis.com/drive/v3"
SCOPE = "https://www.googleapis.com/auth/drive.readonly"
_FLOW = google_flow(SCOPE)
# Google's own formats: what they are exported as, and the suffix of that.
_MARKDOWN = "text/markdown"
_EXPORTS = {
    f"{NATIVE}document": (_MARKDOWN, ".md"),
    f"{NATIVE}spreadsheet": ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", ".xlsx"),
    f"{NATIVE}presentation": ("text/plain", ".txt"),
}
_MAX_EXPORT_BYTES = 32 << 20  # Google's limit is 10 MB
_SMALLER_EXPORTS = {_MARKDOWN: "text/plain"}


class GoogleDriveConfig(DriveFilter):
    """What to follow in Google Drive."""

    drives: list[str] = Field(
        default=[],
        max_length=500,
        description="`my` for files of the account and shared with it, and shared drives by name or id; empty for all.",
    )
    folders: list[str] = Field(
        default=[],
        max_length=500,
        description="Only files below these folders, by the ids in their addresses.",
    )
    domains: list[str] = Field(
        default=[],
        max_length=50,
        description="Domains whose files everyone here may see if they are shared with the domain.",
    )
    link_is_public: bool = Field(
        default=False, description="Whether what anyone with the link can open counts as public."
    )
    impersonate: str | None = Field(
        default=None,
        description="The user on whose behalf a service account with domain-wide delegation reads.",
    )
    base_url: BaseUrl = Field(default=DEFAULT_URL, description="The address of Drive's API.")


class GoogleDriveCredentials(ConnectorForm):
    """The key of a service account, or a client with a refresh token, or an access token."""

    service_account_key: SecretStr | None = Field(
        default=None, description="The JSON key of a service account that can see the files."
    )
    client_id: str | None = Field(default=None, description="The id of an OAuth client, with its secret.")
    client_secret: SecretStr | None = Field(default=None, description="The secret of the OAuth client.")
    refresh_token: SecretStr | None = Field(
        default=None, description="A refresh token of the OAuth client; the sign-in fills it in."
    )
    token: SecretStr | None = Field(default=None, description="An access token. It expires after an hour.")

    @model_validator(mode="after")
    def _check_one_method(self) -> "GoogleDriveCredentials":
        client = [self.client_id is not None, self.client_secret is not None]
        methods = [self.service_account_key is not None, all(client), self.token is not None]
        is_partial = (any(client) or self.refresh_token is not None) and not all(client)
        if sum(methods) != 1 or is_partial:
            raise ValueError("give serviceAccountKey, or clientId and clientSecret, or a token")
        return self


class GoogleDriveConnector(SharedFileConnector):
    """The drives that an account can see."""

    def __init__(self, config: GoogleDriveConfig, http: SignedInTransport, max_bytes: int) -> None:
        super().__init__("google-drive", config, max_bytes)
        self._config, self._http = config, http
        self._drives: dict[str, str] | None = None
        self._missing: list[str] = []
        self._files: dict[str, GoogleFiles] = {}  # by drive
        self._drive_permissions: dict[str, list[dict[str, Any]]] = {}

    async def close(self) -> None:
        """Close its connections."""
        await self._http.close()

    async def check(self) -> Account:
        """Whose files are read."""
        response = await self._http.get("/about", {"fields": "user(displayName,emailAddress)"})
        user = as_dict(as_dict(response.data).get("user"))
        return Account(str(user.get("emailAddress") or "?"), f"{len(await self.find_drives())} drives")

    async def find_problems(self) -> list[str]:
        """Shared drives that don't exist, and folders that can't be seen."""
        drives = await self.find_drives()
        problems = scope_problems("drive", self._missing, is_empty=not drives, settings="drives")
        for folder in self._config.folders:
            try:
                await self._http.get(f"/files/{folder}", {"fields": "id", "supportsAllDrives": True})
            except (SourceGone, Unreadable):
                problems += scope_problems("folder", [folder], is_empty=False, settings="folders")
        return problems

    async def find_drives(self) -> Mapping[str, str]:
        """`my`, and the shared drives that are followed."""
        if self._drives is None:
            wanted = set(self._config.drives)
            drives = {MY_DRIVE: "My Drive"} if not wanted or MY_DRIVE in wanted else {}
            if not wanted or wanted - {MY_DRIVE}:
                params = {"pageSize": 100, "fields": "nextPageToken,drives(id,name)"}
                async for drive in iter_entries(self._http, "/drives", "drives", params):
                    if not wanted or {drive["id"], drive["name"]} & wanted:
                        drives[str(drive["id"])] = str(drive["name"])
            known = {*drives, *drives.values()}
            self._missing = [name for name in self._config.drives if name not in known]
            self._drives = drives
        return self._drives

    async def drive_readers_digest(self, drive: str) -> str:
        """The members of a shared drive. Files of My Drive have permissions of their own alone."""
        if drive == MY_DRIVE:
            return ""
        try:
            permissions = await self._list_drive_permissions(drive)
        except (SourceGone, Unreadable):
            return ""
        contents = sorted(json.dumps(permission, sort_keys=True) for permission in permissions)
        return hashlib.sha256("\n".join(contents).encode()).hexdigest()[:24]

    async def list_files(self, drive: str, cursor: str | None) -> SharedFilePage:
        """A page of the files of a drive."""
        page = await self._files_of(drive).list_page(cursor)
        files = [
            await self._describe_file(drive, file)
            for file in page.files
            if await self._is_inside(drive, file)
        ]
        return SharedFilePage(files, page.at, page.next_cursor, page.changes_from)

    async def read_changes(self, drive: str, token: str) -> SharedFileChanges:
        """What changed in a drive."""
        page = await self._files_of(drive).read_changes(token)
        files = {
            file_id: await self._describe_file(drive, file)
            for file_id, file in page.files.items()
            if await self._is_inside(drive, file)
        }
        return SharedFileChanges(
            list(files.values()),
            page.at,
            page.next_token,
            page.has_more,
            page.gone_ids | page.files.keys() - files.keys(),
            page.folders,
        )

    async def find_file(self, drive: str, file_id: str) -> SharedFile:
        """One file as it is now."""
        file = await self._files_of(drive).find(file_id)
        if not await self._is_inside(drive, file):
            raise SourceGone("The file is no longer in a folder that is followed.")
        return await self._describe_file(drive, file)

    async def read_file(self, locator: Json) -> AsyncIterator[bytes]:
        """The bytes of a file, or its export."""
        if "export" in locator:
            yield await self._export(str(locator["id"]), str(locator["export"]))
            return
        params = {"alt": "media", "supportsAllDrives": "true"}
        async for piece in self._http.stream(f"/files/{locator['id']}", params):
            yield piece

    async def _export(self, file_id: str, media_type: str) -> bytes:
        """A document in another format. Google exports 10 MB at most; pictures count as markdown, and not as plain text."""
        for wanted in dict.fromkeys((media_type, _SMALLER_EXPORTS.get(media_type, media_type))):
            try:
                exported = bytearray()
                async for piece in self._http.stream(f"/files/{file_id}/export", {"mimeType": wanted}):
                    exported += piece
                    if len(exported) > _MAX_EXPORT_BYTES:
                        raise Unreadable("The export is too large.", code="connector_refused")
            except Unreadable as error:
                if error.code != FORBIDDEN:
                    raise
                continue
            return without_pictures(exported) if wanted == _MARKDOWN else bytes(exported)
        raise Unreadable(
            "Google does not export it: it is larger than 10 MB, or its owner does not let readers download it.",
            code=FORBIDDEN,
        )

    # ── files ────────────────────────────────────────────────────────────────────────────────────────────

    def _files_of(self, drive: str) -> GoogleFiles:
        return self._files.setdefault(drive, GoogleFiles(self._http, drive))

    async def _describe_file(self, drive: str, file: dict[str, Any]) -> SharedFile:
        file_id, media_type = str(file["id"]), str(file.get("mimeType") or "")
        title = clean_name(str(file.get("name") or file_id))
        export = _EXPORTS.get(media_type)
        # Other formats of Google (forms, sites, drawings) have no text to export.
        is_readable = export is not None or not media_type.startswith(NATIVE)
        name = (f"{title}{export[1]}" if export else title) if is_readable else ""
        size = str(file.get("size") or "")
        return SharedFile(
            file_id,
            title=title,
            folder=await self._files_of(drive).folders.path_of(parent_of(file)),
            name=name,
            version=str((not export and file.get("md5Checksum")) or file.get("modifiedTime")),
            audience=await self._audience(drive, file),
            size=int(size) if size.isdecimal() and not export else None,
            updated_at=parse_time(file.get("modifiedTime")),
            url=str(file.get("webViewLink") or "") or None,
            media_type=export[0] if export else media_type or None,
            locator={"id": file_id, "export": export[0]} if export else {"id": file_id},
        )

    async def _is_inside(self, drive: str, file: dict[str, Any]) -> bool:
        if not self._config.folders:
            return True
        folder = await self._files_of(drive).folders.path_of(parent_of(file))
        return not folder.marks.keys().isdisjoint(self._config.folders)

    # ── permissions ──────────────────────────────────────────────────────────────────────────────────────

    async def _audience(self, drive: str, file: dict[str, Any]) -> Audience:
        if drive == MY_DRIVE:
            if "permissions" not in file:  # only who may share a file sees them
                return Audience(UNKNOWN_READERS, complete=False)
            return self._audience_of([as_dict(entry) for entry in as_list(file["permissions"])])
        try:
            permissions = await self._list_drive_permissions(drive)
            own_ids = {str(entry) for entry in as_list(file.get("permissionIds"))}
            if own_ids and own_ids != {str(entry.get("id")) for entry in permissions}:
                permissions = await self._list_permissions(str(file["id"]))
        except (SourceGone, Unreadable):
            return Audience(UNKNOWN_READERS, complete=False)
        return self._audience_of(permissions)

    async def _list_drive_permissions(self, drive: str) -> list[dict[str, Any]]:
        if drive not in self._drive_permissions:
            self._drive_permissions[drive] = await self._list_permissions(drive)
        return self._drive_permissions[drive]

    async def _list_permissions(self, file_id: str) -> list[dict[str, Any]]:
        fields = f"nextPageToken,permissions({PERMISSION_FIELDS})"
        params = {"supportsAllDrives": True, "pageSize": 100, "fields": fields}
        entries = iter_entries(self._http, f"/files/{file_id}/permissions", "permissions", params)
        return [entry async for entry in entries]

    def _audience_of(self, permissions: Sequence[dict[str, Any]]) -> Audience:
        emails: set[str] = set()
        groups: set[str] = set()
        is_public = False
        for permission in permissions:
            email = str(permission.get("emailAddress") or "").lower()
            is_discoverable = bool(permission.get("allowFileDiscovery")) or self._config.link_is_public
            match permission.get("type"):
                case _ if permission.get("deleted") or permission.get("view"):
                    continue  # a view is of what was published, or of a folder's name alone
                case "user" if email:
                    emails.add(email)
                case "group" if email:
                    groups.add(email)
                case "anyone":
                    is_public |= is_discoverable
                case "domain":
                    is_public |= is_discoverable and permission.get("domain") in self._config.domains
                case _:
                    continue
        contents = json.dumps([is_public, sorted(emails), sorted(groups)])
        key = f"readers:{hashlib.sha256(contents.encode()).hexdigest()[:24]}"
        return Audience(key, everybody=is_public, emails=frozenset(emails), groups=frozenset(groups))


def _open(
    config: GoogleDriveConfig, credentials: GoogleDriveCredentials, limits: ConnectorLimits
) -> Connector:
    headers: dict[str, str] = {}
    renewal: TokenRenewal | None = None
    if credentials.service_account_key is not None:
        key = ServiceAccountKey(credentials.service_account_key.get_secret_value())
        renewal = TokenRenewal(
            limits.transport(key.token_url, {}), key.token_url, partial(key.form, SCOPE, config.impersonate)
        )
    elif credentials.client_secret is not None:
        if credentials.refresh_token is None:
            raise SignInNeeded.at("Google")
        form = {
            "grant_type": "refresh_token",
            "client_id": credentials.client_id or "",
            "client_secret": credentials.client_secret.get_secret_value(),
        }
        token = credentials.refresh_token.get_secret_value()
        url = _FLOW.token_url(config)
        http = limits.transport(url, {})
        renewal = RefreshTokenRenewal(http, url, lambda: form, token, limits.secrets)
    elif credentials.token is not None:
        headers["Authorization"] = f"Bearer {credentials.token.get_secret_value()}"
    signed_in = SignedInTransport(limits.transport(config.base_url, headers), renewal)
    return GoogleDriveConnector(config, signed_in, limits.attachment_limit)


KIND = ConnectorKind(
    "google-drive",
    GoogleDriveConfig,
    GoogleDriveCredentials,
    _open,
    CHECKPOINT_VERSION,
    "Google Drive",
    _FLOW,
    reports_changes=True,
)
