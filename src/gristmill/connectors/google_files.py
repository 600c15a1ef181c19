"""Files, folders and changes of Google Drive, as its API returns them.

A change of a folder does not name what lies below it, so a page of changes is completed: the folder is listed with everything below
it. That finds files whose paths or readers changed with the folder, and files that came with it: out of the trash, from a folder that is not
followed, by a share. What lay below a folder that is gone can't be listed: only Gristmill knows it (`GoogleChanges.folders`).
"""

import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from gristmill.connectors import markup
from gristmill.connectors.access_tokens import SignedInTransport
from gristmill.connectors.drive_folders import DriveFolders, Folder
from gristmill.connectors.json_values import as_dict, as_list
from gristmill.errors import SourceGone, Unreadable

MY_DRIVE = "my"
NATIVE = "application/vnd.google-apps."
PERMISSION_FIELDS = "id,type,role,emailAddress,displayName,domain,allowFileDiscovery,deleted,view"
_FOLDER = f"{NATIVE}folder"
_SHORTCUT = f"{NATIVE}shortcut"
_PAGE_SIZE = 1000
# An exported document has its pictures at its end, in base64: [image1]: <data:image/png;base64,…>
_PICTURE_DATA = re.compile(rb"(?m)^\[[^\]\n]{1,99}\]:[ \t]*<?data:image/[^>\n]*>?[ \t]*\r?\n?")
_PICTURE = re.compile(rb"!\[([^\]\n]{0,2000})\](?:\[image\d+\]|\(data:image/[^)\n]*\))")
_MAX_PARENTS = 20  # in one query
_FILE_FIELDS = (
    "id,name,mimeType,md5Checksum,modifiedTime,size,parents,webViewLink,driveId,trashed,permissionIds,"
    f"permissions({PERMISSION_FIELDS})"
)
_FOLDER_FIELDS = "id,name,mimeType,parents"

JsonFile = dict[str, Any]


@dataclass(frozen=True)
class GooglePage:
    """A page of a complete listing; its cursor has the token from which changes count, which was requested first."""

    files: Sequence[JsonFile]
    at: datetime
    next_cursor: str | None
    changes_from: str | None


@dataclass
class GoogleChanges:
    """A page of changes: files as they are now, those below changed folders included; ids of what is gone, be it file or folder; and
    folders by id with their marks, None for those that are gone."""

    at: datetime
    next_token: str
    has_more: bool
    files: dict[str, JsonFile] = field(default_factory=dict[str, JsonFile])
    gone_ids: set[str] = field(default_factory=set[str])
    folders: dict[str, str | None] = field(default_factory=dict[str, str | None])


class GoogleFiles:
    """The files of one drive: `my`, or a shared drive by id."""

    def __init__(self, http: SignedInTransport, drive: str) -> None:
        self._http, self._drive = http, drive
        self.folders = DriveFolders(self._find_folder)
        self._root: str | None = None if drive == MY_DRIVE else drive
        self._has_listed_folders = False

    async def list_page(self, cursor: str | None) -> GooglePage:
        """A page of all files, without folders and shortcuts. Folders are listed before the first one."""
        state = as_dict(json.loads(cursor)) if cursor else {"start": await self._start_token()}
        if cursor is None or not self._has_listed_folders:
            await self._list_folders()
        params = {
            **self._scope(),
            "q": f"trashed = false and mimeType != '{_FOLDER}' and mimeType != '{_SHORTCUT}'",
            "fields": f"nextPageToken,files({_FILE_FIELDS})",
            "pageSize": _PAGE_SIZE,
            "pageToken": state.get("page"),
        }
        response = await self._http.get("/files", params)
        data = as_dict(response.data)
        page = str(data.get("nextPageToken") or "")
        return GooglePage(
            [as_dict(file) for file in as_list(data.get("files"))],
            response.server_time,
            json.dumps({**state, "page": page}) if page else None,
            None if page else state.get("start"),
        )

    async def find(self, file_id: str) -> JsonFile:
        """One file as it is now; SourceGone if it is in the trash, or in another drive."""
        params = {"fields": _FILE_FIELDS, "supportsAllDrives": True}
        file = as_dict((await self._http.get(f"/files/{file_id}", params)).data)
        if file.get("trashed") or not self._is_here(file):
            raise SourceGone("The file is in the trash, or no longer in this drive.")
        return file

    async def read_changes(self, token: str) -> GoogleChanges:
        """What changed since a token."""
        params = {
            "pageToken": token,
            "pageSize": _PAGE_SIZE,
            "includeRemoved": True,
            "supportsAllDrives": True,
            "includeItemsFromAllDrives": self._drive != MY_DRIVE,
            "driveId": None if self._drive == MY_DRIVE else self._drive,
            "fields": f"nextPageToken,newStartPageToken,changes(changeType,removed,fileId,file({_FILE_FIELDS}))",
        }
        response = await self._http.get("/changes", params)
        data = as_dict(response.data)
        following = data.get("nextPageToken")
        if not (following or data.get("newStartPageToken")):
            raise Unreadable("Google Drive returned changes without a token.", code="connector_refused")
        changes = GoogleChanges(
            response.server_time, str(following or data["newStartPageToken"]), has_more=bool(following)
        )
        for change in map(as_dict, as_list(data.get("changes"))):
            self._add_change(changes, change)
        await self._add_files_below_changed_folders(changes)
        return changes

    async def _start_token(self) -> str | None:
        """The token from which changes count; None if the server has none."""
        params = {"supportsAllDrives": True, "driveId": None if self._drive == MY_DRIVE else self._drive}
        try:
            data = as_dict((await self._http.get("/changes/startPageToken", params)).data)
        except (SourceGone, Unreadable):
            return None
        return str(data.get("startPageToken") or "") or None

    # ── changes ──────────────────────────────────────────────────────────────────────────────────────────

    def _add_change(self, changes: GoogleChanges, change: dict[str, Any]) -> None:
        if (
            change.get("changeType") == "drive"
        ):  # drives, and who may read all of them, are looked at in every run
            return
        file_id, file = str(change.get("fileId") or ""), as_dict(change.get("file"))
        if change.get("removed") or not file or file.get("trashed") or not self._is_here(file):
            changes.gone_ids.add(file_id)
            changes.folders[file_id] = None
        elif file.get("mimeType") == _FOLDER:
            self._remember(file)
            changes.folders[file_id] = _folder(file).mark
        elif file.get("mimeType") != _SHORTCUT:
            changes.files[file_id] = file

    async def _add_files_below_changed_folders(self, changes: GoogleChanges) -> None:
        waiting = [folder_id for folder_id, mark in changes.folders.items() if mark is not None]
        known = set(waiting)
        while waiting:
            parents, waiting = waiting[:_MAX_PARENTS], waiting[_MAX_PARENTS:]
            places = " or ".join(f"'{parent}' in parents" for parent in parents)
            params = {
                **self._scope(),
                "q": f"({places}) and trashed = false and mimeType != '{_SHORTCUT}'",
                "fields": f"nextPageToken,files({_FILE_FIELDS})",
                "pageSize": _PAGE_SIZE,
            }
            async for file in self.pages("/files", "files", params):
                file_id = str(file["id"])
                if file.get("mimeType") != _FOLDER:
                    changes.files[file_id] = file
                elif file_id not in known:
                    known.add(file_id)
                    self._remember(file)
                    waiting.append(file_id)

    # ── folders ──────────────────────────────────────────────────────────────────────────────────────────

    async def _list_folders(self) -> None:
        params = {
            **self._scope(),
            "q": f"trashed = false and mimeType = '{_FOLDER}'",
            "fields": f"nextPageToken,files({_FOLDER_FIELDS})",
            "pageSize": _PAGE_SIZE,
        }
        async for folder in self.pages("/files", "files", params):
            self._remember(folder)
        self._has_listed_folders = True

    async def _find_folder(self, folder_id: str) -> Folder | None:
        if folder_id == await self._root_id():
            return None
        params = {"fields": _FOLDER_FIELDS, "supportsAllDrives": True}
        try:
            return _folder(as_dict((await self._http.get(f"/files/{folder_id}", params)).data))
        except SourceGone:
            return None  # a file can be shared without the folder that it is in

    async def _root_id(self) -> str:
        if self._root is None:
            try:
                data = as_dict((await self._http.get("/files/root", {"fields": "id"})).data)
                self._root = str(data.get("id") or "root")
            except SourceGone:
                self._root = "root"
        return self._root

    def _remember(self, folder: JsonFile) -> None:
        self.folders.remember(str(folder["id"]), _folder(folder))

    # ── requests ─────────────────────────────────────────────────────────────────────────────────────────

    def _scope(self) -> dict[str, str | int | bool]:
        if self._drive == MY_DRIVE:
            return {"corpora": "user", "supportsAllDrives": True, "includeItemsFromAllDrives": False}
        return {
            "corpora": "drive",
            "driveId": self._drive,
            "supportsAllDrives": True,
            "includeItemsFromAllDrives": True,
        }

    def _is_here(self, file: JsonFile) -> bool:
        return str(file.get("driveId") or MY_DRIVE) == self._drive

    def pages(
        self, path: str, name: str, params: Mapping[str, str | int | bool]
    ) -> AsyncIterator[dict[str, Any]]:
        """The entries of all pages of a list."""
        return iter_entries(self._http, path, name, params)


async def iter_entries(
    http: SignedInTransport, path: str, name: str, params: Mapping[str, str | int | bool]
) -> AsyncIterator[dict[str, Any]]:
    """The entries of all pages of a list, which the responses have under `name`."""
    token: str | None = None
    while True:
        data = as_dict((await http.get(path, {**params, "pageToken": token})).data)
        for entry in as_list(data.get(name)):
            yield as_dict(entry)
        token = str(data.get("nextPageToken") or "") or None
        if token is None:
            return


def parent_of(file: JsonFile) -> str | None:
    """The folder that a file is in; None if it can't be seen."""
    parents = as_list(file.get("parents"))
    return str(parents[0]) if parents else None


def clean_name(name: str) -> str:
    """A name as a part of a path: Drive allows slashes in names."""
    return markup.strip_unstorable(name).replace("/", "∕")


def without_pictures(markdown: bytes | bytearray) -> bytes:
    """An exported document with the descriptions of its pictures in place of their bytes."""
    return bytes(_PICTURE.sub(rb"\1", _PICTURE_DATA.sub(b"", markdown)))


def _folder(folder: JsonFile) -> Folder:
    return Folder(clean_name(str(folder.get("name") or "")), parent_of(folder))
