"""Fakes of places with files that have ids and permissions: Google Drive, and drives of Microsoft Graph."""

import re
from functools import partial
from typing import Any

from tests.connectors.fakes.drive_model import FOLDER, READER, DriveFile, FakeDrives
from tests.connectors.fakes.tool import FakeCall, FakeError
from tests.sources.site import SiteResponse

__all__ = ["FOLDER", "READER", "DriveFile", "FakeDrives", "FakeGoogleDrive", "FakeGraph"]

GOOGLE_DOCUMENT = "application/vnd.google-apps.document"


class FakeGoogleDrive(FakeDrives):
    """My Drive and a shared drive. The permissions of a shared drive's files are not in the listing."""

    kind = "google-drive"

    def __init__(self) -> None:
        super().__init__()
        self.exports: list[str] = []
        self.files["doc"] = DriveFile(
            "doc", "Plan", "my", f"# Plan {self.new_word()}", "guides-my", GOOGLE_DOCUMENT, self.stamp()
        )
        self.route("GET", "/drive/v3/about", self._about)
        self.route("GET", "/drive/v3/drives", self._drives)
        self.route("GET", "/drive/v3/changes", self._changes)
        self.route("GET", "/drive/v3/changes/startPageToken", self._start_token)
        self.route("GET", "/drive/v3/files", self._list)
        self.route("GET", "/drive/v3/files/root", self._root)
        self.route("GET", "/drive/v3/files/{file}", self._get)
        self.route("GET", "/drive/v3/files/{file}/export", self._export)
        self.route("GET", "/drive/v3/files/{file}/permissions", self._permissions)

    def config(self) -> dict[str, Any]:
        assert self.site is not None
        return {"baseUrl": f"{self.site.url}/drive/v3"}

    def is_detail(self, call: FakeCall) -> bool:
        is_file = call.path.startswith("/drive/v3/files/") and not call.path.endswith(
            ("/permissions", "/root")
        )
        return is_file and call.params.get("fields") != "id,name,mimeType,parents"  # folders

    def _about(self, call: FakeCall) -> dict[str, Any]:
        assert "emailAddress" in call.params["fields"]
        return {"user": {"emailAddress": READER}}

    def _drives(self, call: FakeCall) -> dict[str, Any]:
        assert "drives(id,name)" in call.params["fields"]
        return {"drives": [{"id": "D1", "name": "Team"}]}

    def _root(self, call: FakeCall) -> dict[str, Any]:
        del call
        return {"id": "0root"}

    def _start_token(self, call: FakeCall) -> dict[str, Any]:
        params = call.require_only("driveId", "supportsAllDrives")
        assert params["supportsAllDrives"] == "true"
        return {"startPageToken": str(self.log.compare(self.files))}

    def _changes(self, call: FakeCall) -> dict[str, Any]:
        params = call.require_only(
            *("pageToken", "pageSize", "fields", "driveId", "includeRemoved"),
            *("supportsAllDrives", "includeItemsFromAllDrives"),
        )
        drive = params.get("driveId", "my")
        assert (params["includeRemoved"], params["includeItemsFromAllDrives"]) == (
            "true",
            "false" if drive == "my" else "true",
        )
        last = self.log.compare(self.files)
        if int(params["pageToken"]) < self.log.oldest:
            raise FakeError(400, {"error": {"code": 400, "message": "Invalid Value"}})
        changes = self.log.since(int(params["pageToken"]), drive)
        page = changes[: self.page_size]
        shown = [self._show_change(item_id) for _, item_id in page]
        if drive == "my":
            shown.append({"changeType": "drive", "driveId": "D1", "removed": False})
        if len(page) < len(changes):
            return {"changes": shown, "nextPageToken": str(page[-1][0])}
        return {"changes": shown, "newStartPageToken": str(last)}

    def _show_change(self, item_id: str) -> dict[str, Any]:
        file = self.files.get(item_id)
        if file is None or None in self.ancestors(file):
            return {"changeType": "file", "fileId": item_id, "removed": True}
        return {"changeType": "file", "fileId": item_id, "removed": False, "file": self.show(file)}

    def _list(self, call: FakeCall) -> dict[str, Any]:
        params = call.require_only(
            *("q", "fields", "pageSize", "pageToken", "corpora", "driveId"),
            *("supportsAllDrives", "includeItemsFromAllDrives"),
        )
        self.log.compare(self.files)  # what was shown and is changed back has changed twice
        drive = params.get("driveId", "my")
        assert (params["corpora"], params["includeItemsFromAllDrives"]) == (
            ("user", "false") if drive == "my" else ("drive", "true")
        )
        assert "trashed = false" in params["q"]
        parents = re.findall(r"'([^']+)' in parents", params["q"])
        files = [
            file
            for _, file in sorted(self.files.items())
            if file.drive == drive
            and self.is_there(file)
            and (file.media_type == FOLDER or f"mimeType = '{FOLDER}'" not in params["q"])
            and (file.media_type != FOLDER or f"mimeType != '{FOLDER}'" not in params["q"])
            and (not parents or file.parent in parents)
        ]
        after = params.get("pageToken", "")
        page = [file for file in files if file.id > after][: self.page_size]
        more = bool(page) and files[-1] is not page[-1]
        token = {"nextPageToken": page[-1].id} if more else {}
        return {"files": [self.show(file) for file in page], **token}

    def _get(self, call: FakeCall, file: str) -> Any:
        if file not in self.files or None in self.ancestors(self.files[file]):
            raise FakeError(404)
        self.log.compare(self.files)
        if call.params.get("alt") == "media":
            return SiteResponse(200, self.files[file].text.encode())
        assert call.params["supportsAllDrives"] == "true"
        return self.show(self.files[file])

    def _export(self, call: FakeCall, file: str) -> SiteResponse:
        self.exports.append(call.params["mimeType"])
        return SiteResponse(200, self.files[file].text.encode())

    def _permissions(self, call: FakeCall, file: str) -> dict[str, Any]:
        assert call.params["supportsAllDrives"] == "true"
        if file not in self.drives and file not in self.files:
            raise FakeError(404)
        readers = self.drives[file].readers if file in self.drives else self.readers_of(self.files[file])
        return {"permissions": [_permission(reader) for reader in readers]}

    def show(self, file: DriveFile) -> dict[str, Any]:
        """As the API returns it."""
        shown: dict[str, Any] = {
            "id": file.id,
            "name": file.name,
            "mimeType": file.media_type,
            "modifiedTime": file.modified,
            "parents": [file.parent or ("0root" if file.drive == "my" else file.drive)],
            "trashed": not self.is_there(file),
            "webViewLink": f"https://drive.google.com/file/d/{file.id}/view",
        }
        if file.media_type == "text/markdown":
            shown |= {"md5Checksum": file.hash, "size": str(len(file.text))}
        permissions = [_permission(reader) for reader in self.readers_of(file)]
        if file.drive == "my":
            return {**shown, "permissions": permissions}
        return {**shown, "driveId": file.drive, "permissionIds": [entry["id"] for entry in permissions]}


def _permission(reader: str) -> dict[str, Any]:
    if reader == "anyone":
        return {"id": "anyoneWithLink", "type": "anyone", "role": "reader", "allowFileDiscovery": True}
    return {"id": f"id-{reader}", "type": "user", "role": "reader", "emailAddress": reader}


class FakeGraph(FakeDrives):
    """A SharePoint library and a user's OneDrive in Microsoft Graph. Redirects downloads to an address without a token."""

    kind = "sharepoint"
    drive_ids = ("L1", "O1")

    def __init__(self) -> None:
        super().__init__()
        prefix = "/v1.0/drives/{drive}"
        answers: list[tuple[str, dict[str, Any]]] = [
            ("/sites/acme.example:/sites/hr", {"id": "acme,1,2"}),
            ("/sites/acme,1,2/drives", {"value": [{"id": "L1", "name": "Documents"}]}),
            ("/users/ann@example.org/drive", {"id": "O1", "name": "OneDrive"}),
        ]
        self.route("GET", "/v1.0/groups/g-1/transitiveMembers/microsoft.graph.user", self._members)
        for path, body in answers:
            self.route("GET", f"/v1.0{path}", partial(self._fixed, body))
        self.route("GET", f"{prefix}/root/delta", self._delta)
        self.route("GET", f"{prefix}/root/permissions", self._root_permissions)
        self.route("GET", f"{prefix}/items/{{item}}", self._item)
        self.route("GET", f"{prefix}/items/{{item}}/content", self._content)
        self.route("GET", "/download/{item}", self._download)
        self.route("POST", r"/v1.0/\$batch", self._batch)

    def config(self) -> dict[str, Any]:
        assert self.site is not None
        return {
            "tenant": "acme.example",
            "sites": ["https://acme.example/sites/hr"],
            "users": ["ann@example.org"],
            "baseUrl": f"{self.site.url}/v1.0",
            "authority": f"{self.site.url}/login",
            "organizationIsEveryone": True,
        }

    def is_detail(self, call: FakeCall) -> bool:
        return (
            "/items/" in call.path and call.params.get("$select") != "id,name,root,parentReference"
        )  # folders

    def check_authorization(self, call: FakeCall) -> None:
        if call.path.startswith("/download/"):
            assert "authorization" not in call.headers  # another host: it gets no token
        else:
            super().check_authorization(call)

    def _fixed(self, body: dict[str, Any], call: FakeCall) -> dict[str, Any]:
        assert "id" in call.params["$select"]
        return body

    def _members(self, call: FakeCall) -> dict[str, Any]:
        """To choose members by their type is an advanced query."""
        if call.headers.get("consistencylevel") != "eventual" or call.params.get("$count") != "true":
            raise FakeError(400, {"error": {"code": "Request_UnsupportedQuery"}})
        return {"value": [{"id": "u-7", "userPrincipalName": "Cat@acme.example"}]}

    def _delta(self, call: FakeCall, drive: str) -> dict[str, Any]:
        """Tokens are `l.ID.NUMBER` within the first listing and `d.NUMBER` for changes."""
        params = call.require_only("$select", "$top", "token")
        assert "deltashowsharingchanges" in call.headers["prefer"]
        # What comes back from the recycle bin is named item by item; what goes there need not be.
        self.log.compare(
            self.files, frozenset(file.id for file in self.files.values() if not self.is_there(file))
        )
        sort, _, rest = params.get("token", "").partition(".")
        if sort == "d":
            return self._show_changes(call, drive, int(rest))
        after, _, number = rest.rpartition(".")
        start = int(number or self.log.number)
        if start < self.log.oldest:
            raise FakeError(410, {"error": {"code": "resyncRequired"}})
        items = [
            file
            for _, file in sorted(self.files.items())
            if file.drive == drive and file.id > after and self.is_there(file)
        ]
        shown = [self.show(file) for file in items[: self.page_size]]
        if sort == "":
            shown = [self._show_root(drive), *shown, {"id": "old", "deleted": {"state": "deleted"}}]
        if len(items) > self.page_size:
            return self._page(call, shown, "nextLink", f"l.{items[self.page_size - 1].id}.{start}")
        return self._page(call, shown, "deltaLink", f"d.{start}")

    def _show_changes(self, call: FakeCall, drive: str, number: int) -> dict[str, Any]:
        """What changed itself, after the folders that it is in: Graph names them too."""
        if number < self.log.oldest:
            raise FakeError(410, {"error": {"code": "resyncRequired"}})
        changes = self.log.since(number, drive)
        page = changes[: self.page_size]
        shown = [self._show_root(drive)] if page else []
        for changed, item_id in page:
            file = self.files.get(item_id)
            if file is None or not self.is_there(file):
                shown.append({"id": item_id, "deleted": {"state": "deleted"}})
                continue
            shown += [self.show(folder) for folder in reversed(self.ancestors(file)) if folder is not None]
            annotation = {"@microsoft.graph.sharedChanged": "True"}
            shown.append(
                {**self.show(file), **(annotation if self.log.sharing.get(item_id) == changed else {})}
            )
        if len(page) < len(changes):
            return self._page(call, shown, "nextLink", f"d.{page[-1][0]}")
        return self._page(call, shown, "deltaLink", f"d.{self.log.number}")

    def _page(self, call: FakeCall, shown: list[dict[str, Any]], link: str, token: str) -> dict[str, Any]:
        assert self.site is not None
        return {"value": shown, f"@odata.{link}": f"{self.site.url}{call.path}?token={token}"}

    def _show_root(self, drive: str) -> dict[str, Any]:
        return {"id": f"root-{drive}", "name": "root", "root": {}, "folder": {}}

    def _root_permissions(self, call: FakeCall, drive: str) -> dict[str, Any]:
        del call
        return {"value": [_grant(reader) for reader in self.drives[drive].readers]}

    def _find(self, drive: str, item: str) -> DriveFile:
        file = self.files.get(item)
        if file is None or not self.is_there(file) or file.drive != drive:
            raise FakeError(404)
        return file

    def _item(self, call: FakeCall, drive: str, item: str) -> dict[str, Any]:
        assert "$select" in call.params
        return self._show_root(drive) if item == f"root-{drive}" else self.show(self._find(drive, item))

    def _content(self, call: FakeCall, drive: str, item: str) -> SiteResponse:
        del call
        assert self.site is not None
        file = self._find(drive, item)
        return SiteResponse(302, b"", {"Location": f"{self.site.elsewhere}/download/{file.id}"})

    def _download(self, call: FakeCall, item: str) -> SiteResponse:
        del call
        if item not in self.files:
            raise FakeError(404)
        return SiteResponse(200, self.files[item].text.encode())

    def _batch(self, call: FakeCall) -> dict[str, Any]:
        assert len(call.body["requests"]) <= 20
        responses: list[dict[str, Any]] = []
        for request in call.body["requests"]:
            _, _, drive, _, item, _ = request["url"].split("/")
            try:
                readers = self.readers_of(self._find(drive, item))
                body = {"value": [_grant(reader) for reader in readers]}
                responses.append({"id": request["id"], "status": 200, "body": body})
            except FakeError as error:
                responses.append({"id": request["id"], "status": error.status, "body": {}})
        return {"responses": responses[::-1]}  # in any order

    def show(self, file: DriveFile) -> dict[str, Any]:
        """As the API returns it."""
        facet: dict[str, Any] = (
            {"folder": {"childCount": 1}}
            if file.media_type == FOLDER
            else {
                "file": {"mimeType": file.media_type, "hashes": {"quickXorHash": file.hash}},
                "size": len(file.text),
            }
        )
        return {
            "id": file.id,
            "name": file.name,
            "lastModifiedDateTime": file.modified,
            "webUrl": f"https://acme.example/{file.id}",
            "parentReference": {"driveId": file.drive, "id": file.parent or f"root-{file.drive}"},
            **facet,
        }


def _grant(reader: str) -> dict[str, Any]:
    if reader == "anyone":
        return {"id": "a", "roles": ["read"], "link": {"scope": "organization", "type": "view"}}
    return {"id": "b", "roles": ["read"], "grantedToV2": {"user": {"id": f"id-{reader}", "email": reader}}}
