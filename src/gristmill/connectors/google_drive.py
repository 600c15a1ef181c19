"""Google Drive: the files of an account, those shared with it, and shared drives.

    stream         files
    (drive:my)     of the account itself, and shared with it
    (drive:{id})   of a shared drive

Google's own formats are exported: documents as markdown, spreadsheets as xlsx, presentations as text. Their version is the time
of their last change; that of other files is the hash of their bytes. What is in the trash counts as deleted. Folders are
listed first, for the paths.

A file is for those whom its permissions name: people, groups, and everyone if it is public. A domain counts as everyone if
`domains` names it. Permissions by link are ignored, unless `linkIsPublic`. A file of a shared drive has the drive's permissions,
unless the ids of its own differ.
"""

import hashlib
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from typing import Any

from pydantic import Field, SecretStr, model_validator

from gristmill.connectors import markup
from gristmill.connectors.access_tokens import ServiceAccountKey, SignedInTransport, TokenRenewal
from gristmill.connectors.files import FileFilter
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
    OAuthFlow,
    scope_problems,
)
from gristmill.connectors.shared_files import (
    CHECKPOINT_VERSION,
    UNKNOWN_READERS,
    SharedFile,
    SharedFileConnector,
    SharedFilePage,
)
from gristmill.connectors.transport import CredentialsRejected
from gristmill.errors import SourceGone, Unreadable

DEFAULT_URL = "https://www.googleapis.com/drive/v3"
AUTHORITY = "https://oauth2.googleapis.com/token"
SIGN_IN = "https://accounts.google.com/o/oauth2/v2/auth"
SCOPE = "https://www.googleapis.com/auth/drive.readonly"
MY_DRIVE = "my"
_PAGE_SIZE = 1000
_MAX_DEPTH = 100  # of folders
_FOLDER = "application/vnd.google-apps.folder"
_SHORTCUT = "application/vnd.google-apps.shortcut"
_NATIVE = "application/vnd.google-apps."
# Google's own formats: what they are exported as, and the suffix of that.
_EXPORTS = {
    f"{_NATIVE}document": ("text/markdown", ".md"),
    f"{_NATIVE}spreadsheet": ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", ".xlsx"),
    f"{_NATIVE}presentation": ("text/plain", ".txt"),
}
_PERMISSION = "id,type,role,emailAddress,displayName,domain,allowFileDiscovery,deleted"
_FILE_FIELDS = (
    "id,name,mimeType,md5Checksum,modifiedTime,size,parents,webViewLink,driveId,trashed,permissionIds,"
    f"permissions({_PERMISSION})"
)


class GoogleDriveConfig(FileFilter):
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
        self._folders: dict[str, dict[str, tuple[str, str | None]]] = {}  # by drive and id: name, parent
        self._drive_permissions: dict[str, list[dict[str, Any]]] = {}

    @property
    def renewed_secrets(self) -> Mapping[str, str]:
        """A new refresh token, if there is one."""
        return self._http.renewed_secrets

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
                async for drive in self._pages(
                    "/drives", "drives", {"pageSize": 100, "fields": "nextPageToken,drives(id,name)"}
                ):
                    if not wanted or {drive["id"], drive["name"]} & wanted:
                        drives[str(drive["id"])] = str(drive["name"])
            known = {*drives, *drives.values()}
            self._missing = [name for name in self._config.drives if name not in known]
            self._drives = drives
        return self._drives

    async def list_files(self, drive: str, cursor: str | None) -> SharedFilePage:
        """A page of the files of a drive, without folders and shortcuts."""
        if drive not in self._folders:
            self._folders[drive] = await self._list_folders(drive)
        response = await self._http.get(
            "/files",
            {
                **_drive_params(drive),
                "q": f"trashed = false and mimeType != '{_FOLDER}' and mimeType != '{_SHORTCUT}'",
                "fields": f"nextPageToken,files({_FILE_FIELDS})",
                "pageSize": _PAGE_SIZE,
                "pageToken": cursor,
            },
        )
        data = as_dict(response.data)
        files = [as_dict(file) for file in as_list(data.get("files"))]
        return SharedFilePage(
            [await self._describe_file(drive, file) for file in files if self._is_inside(drive, file)],
            str(data.get("nextPageToken") or "") or None,
        )

    async def find_file(self, drive: str, file_id: str) -> SharedFile:
        """One file as it is now."""
        if drive not in self._folders:
            self._folders[drive] = await self._list_folders(drive)
        response = await self._http.get(
            f"/files/{file_id}", {"fields": _FILE_FIELDS, "supportsAllDrives": True}
        )
        file = as_dict(response.data)
        if file.get("trashed") or not self._is_inside(drive, file):
            raise SourceGone("The file is in the trash, or no longer in a folder that is followed.")
        return await self._describe_file(drive, file)

    async def read_file(self, locator: Json) -> AsyncIterator[bytes]:
        """The bytes of a file, or its export."""
        path, params = f"/files/{locator['id']}", {"alt": "media", "supportsAllDrives": "true"}
        if "export" in locator:
            path, params = f"{path}/export", {"mimeType": str(locator["export"])}
        async for piece in self._http.stream(path, params):
            yield piece

    # ── files ────────────────────────────────────────────────────────────────────────────────────────────

    async def _describe_file(self, drive: str, file: dict[str, Any]) -> SharedFile:
        file_id, media_type = str(file["id"]), str(file.get("mimeType") or "")
        title = markup.strip_unstorable(str(file.get("name") or file_id)).replace("/", "∕")
        export = _EXPORTS.get(media_type)
        # Other formats of Google (forms, sites, drawings) have no text to export: no glob matches the empty name.
        is_readable = export is not None or not media_type.startswith(_NATIVE)
        name = (f"{title}{export[1]}" if export else title) if is_readable else ""
        size = str(file.get("size") or "")
        return SharedFile(
            file_id,
            path="/".join([*self._folder_names(drive, file), title]),
            name=name,
            version=str((not export and file.get("md5Checksum")) or file.get("modifiedTime")),
            audience=await self._audience(drive, file),
            size=int(size) if size.isdecimal() and not export else None,
            updated_at=parse_time(file.get("modifiedTime")),
            url=str(file.get("webViewLink") or "") or None,
            media_type=export[0] if export else media_type or None,
            locator={"id": file_id, "export": export[0]} if export else {"id": file_id},
        )

    async def _list_folders(self, drive: str) -> dict[str, tuple[str, str | None]]:
        params = {
            **_drive_params(drive),
            "q": f"trashed = false and mimeType = '{_FOLDER}'",
            "fields": "nextPageToken,files(id,name,parents)",
            "pageSize": _PAGE_SIZE,
        }
        return {
            str(folder["id"]): (str(folder.get("name") or ""), _parent(folder))
            async for folder in self._pages("/files", "files", params)
        }

    def _ancestors(self, drive: str, file: dict[str, Any]) -> list[str]:
        """The ids of the folders that a file is in, the innermost first."""
        folders, ancestors, parent = self._folders[drive], list[str](), _parent(file)
        while parent is not None and len(ancestors) < _MAX_DEPTH:
            ancestors.append(parent)
            parent = folders[parent][1] if parent in folders else None
        return ancestors

    def _folder_names(self, drive: str, file: dict[str, Any]) -> list[str]:
        folders = self._folders[drive]
        names = [folders[folder][0] for folder in self._ancestors(drive, file) if folder in folders]
        return [markup.strip_unstorable(name).replace("/", "∕") for name in reversed(names)]

    def _is_inside(self, drive: str, file: dict[str, Any]) -> bool:
        wanted = self._config.folders
        return not wanted or not set(wanted).isdisjoint(self._ancestors(drive, file))

    async def _pages(
        self, path: str, name: str, params: Mapping[str, str | int | bool]
    ) -> AsyncIterator[dict[str, Any]]:
        token: str | None = None
        while True:
            data = as_dict((await self._http.get(path, {**params, "pageToken": token})).data)
            for entry in as_list(data.get(name)):
                yield as_dict(entry)
            token = str(data.get("nextPageToken") or "") or None
            if token is None:
                return

    # ── permissions ──────────────────────────────────────────────────────────────────────────────────────

    async def _audience(self, drive: str, file: dict[str, Any]) -> Audience:
        if drive == MY_DRIVE:
            if "permissions" not in file:  # only who may share a file sees them
                return Audience(UNKNOWN_READERS, complete=False)
            return self._audience_of([as_dict(entry) for entry in as_list(file["permissions"])])
        try:
            if drive not in self._drive_permissions:
                self._drive_permissions[drive] = await self._list_permissions(drive)
            permissions = self._drive_permissions[drive]
            own_ids = {str(entry) for entry in as_list(file.get("permissionIds"))}
            if own_ids and own_ids != {str(entry.get("id")) for entry in permissions}:
                permissions = await self._list_permissions(str(file["id"]))
        except (SourceGone, Unreadable):
            return Audience(UNKNOWN_READERS, complete=False)
        return self._audience_of(permissions)

    async def _list_permissions(self, file_id: str) -> list[dict[str, Any]]:
        fields = f"nextPageToken,permissions({_PERMISSION})"
        params = {"supportsAllDrives": True, "pageSize": 100, "fields": fields}
        return [entry async for entry in self._pages(f"/files/{file_id}/permissions", "permissions", params)]

    def _audience_of(self, permissions: Sequence[dict[str, Any]]) -> Audience:
        emails: set[str] = set()
        groups: set[str] = set()
        is_public = False
        for permission in permissions:
            email = str(permission.get("emailAddress") or "").lower()
            is_discoverable = bool(permission.get("allowFileDiscovery")) or self._config.link_is_public
            match permission.get("type"):
                case _ if permission.get("deleted"):
                    continue
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


def _parent(file: dict[str, Any]) -> str | None:
    parents = as_list(file.get("parents"))
    return str(parents[0]) if parents else None


def _drive_params(drive: str) -> dict[str, str | int | bool]:
    if drive == MY_DRIVE:
        return {"corpora": "user", "supportsAllDrives": True, "includeItemsFromAllDrives": False}
    return {
        "corpora": "drive",
        "driveId": drive,
        "supportsAllDrives": True,
        "includeItemsFromAllDrives": True,
    }


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
            raise CredentialsRejected(
                "No one has signed in at Google yet. Run `gristmill connector sign-in`, and open the address that it prints."
            )
        form = {
            "grant_type": "refresh_token",
            "client_id": credentials.client_id or "",
            "client_secret": credentials.client_secret.get_secret_value(),
            "refresh_token": credentials.refresh_token.get_secret_value(),
        }
        renewal = TokenRenewal(limits.transport(AUTHORITY, {}), AUTHORITY, lambda: form)
    elif credentials.token is not None:
        headers["Authorization"] = f"Bearer {credentials.token.get_secret_value()}"
    http = SignedInTransport(limits.transport(config.base_url, headers), renewal)
    return GoogleDriveConnector(config, http, limits.attachment_limit)


def _address(address: str) -> Callable[[GoogleDriveConfig], str]:
    return lambda config: address


KIND = ConnectorKind(
    "google-drive",
    GoogleDriveConfig,
    GoogleDriveCredentials,
    _open,
    CHECKPOINT_VERSION,
    "Google Drive",
    # `consent` makes Google return a refresh token also to those who signed in before.
    OAuthFlow(_address(SIGN_IN), _address(AUTHORITY), SCOPE, {"access_type": "offline", "prompt": "consent"}),
)
