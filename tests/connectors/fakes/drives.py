"""Fakes of places with files that have ids and permissions: Google Drive, and drives of Microsoft Graph."""

import hashlib
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tests.connectors.fakes.tool import ExpectedDocument, FakeCall, FakeError, FakeTool, words_in
from tests.sources.site import SiteResponse

FOLDER = "application/vnd.google-apps.folder"
GOOGLE_DOCUMENT = "application/vnd.google-apps.document"
READER = "ann@example.org"


@dataclass
class DriveFile:
    """A file or folder. `readers` are those of its own; without them it has those of its drive."""

    id: str
    name: str
    drive: str
    text: str = ""
    parent: str | None = None
    media_type: str = "text/markdown"
    modified: str = ""
    trashed: bool = False
    readers: list[str] | None = None
    version: int = 1

    @property
    def hash(self) -> str:
        """The hash of its bytes."""
        return hashlib.md5(self.text.encode(), usedforsecurity=False).hexdigest()


@dataclass
class Drive:
    """A drive and those who may read it."""

    id: str
    readers: list[str] = field(default_factory=lambda: [READER])


class FakeDrives(FakeTool):
    """Two drives with folders and files; a few files are of formats that are not followed."""

    drive_ids = ("my", "D1")

    def __init__(self) -> None:
        super().__init__()
        self.drives = {drive: Drive(drive) for drive in self.drive_ids}
        self.files: dict[str, DriveFile] = {}
        self.count = 0
        for drive in self.drive_ids:
            for name, parent in (("guides", None), ("deep er", f"guides-{drive}")):
                folder = DriveFile(
                    f"{name.replace(' ', '')}-{drive}", name, drive, parent=parent, media_type=FOLDER
                )
                self.files[folder.id] = folder
        self.files["picture"] = DriveFile("picture", "picture.png", self.drive_ids[0], "pixels")
        for _ in range(12):
            self.add()

    def stamp(self) -> str:
        """The time, as a file's last change has it; never the same twice."""
        return f"{self.now:%Y-%m-%dT%H:%M:%S}.{self.new_id() % 1_000_000:06d}Z"

    def followed(self) -> list[DriveFile]:
        """The files that are followed."""
        return [
            file
            for file in self.files.values()
            if file.media_type != FOLDER and not file.name.endswith(".png") and not file.trashed
        ]

    def readers_of(self, file: DriveFile) -> list[str]:
        """Who may read a file."""
        return self.drives[file.drive].readers if file.readers is None else file.readers

    def expected_documents(self) -> dict[str, ExpectedDocument]:
        return {
            f"file:{file.drive}:{file.id}": ExpectedDocument(
                words_in(file.text),
                frozenset(
                    "org:*" if reader == "anyone" else f"user_email:{reader}"
                    for reader in self.readers_of(file)
                ),
            )
            for file in self.followed()
        }

    def add(self) -> None:
        self.count += 1
        drive = self.drive_ids[self.count % 2]
        parent = (None, f"guides-{drive}", f"deeper-{drive}")[self.count % 3]
        file = DriveFile(
            f"f{self.new_id()}", f"file {self.count}.md", drive, f"text {self.new_word()}", parent
        )
        file.modified = self.stamp()
        if self.count % 4 == 0:
            file.readers = [READER, "bob@example.org"]
        self.files[file.id] = file

    def edit(self, pick: int) -> None:
        file = self.followed()[pick % len(self.followed())]
        if pick % 5 == 0:
            file.parent = None
        else:
            file.text = f"text {self.new_word()} {self.new_word()}"
        file.modified, file.version = self.stamp(), file.version + 1

    def delete(self, pick: int) -> None:
        if len(self.followed()) > 8:
            file = self.followed()[pick % len(self.followed())]
            if pick % 2:
                file.trashed = True
            else:
                del self.files[file.id]

    def change_permission(self, pick: int) -> None:
        if pick % 2:
            readers = self.drives[self.drive_ids[1]].readers
            readers[:] = [READER] if len(readers) > 1 else [READER, "eve@example.org"]
        else:
            file = self.followed()[pick % len(self.followed())]
            file.readers = ["anyone"] if file.readers is None else None


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
        self.route("GET", "/drive/v3/files", self._list)
        self.route("GET", "/drive/v3/files/{file}", self._get)
        self.route("GET", "/drive/v3/files/{file}/export", self._export)
        self.route("GET", "/drive/v3/files/{file}/permissions", self._permissions)

    def config(self) -> dict[str, Any]:
        assert self.site is not None
        return {"baseUrl": f"{self.site.url}/drive/v3"}

    def is_detail(self, call: FakeCall) -> bool:
        return call.path.startswith("/drive/v3/files/") and not call.path.endswith("/permissions")

    def _about(self, call: FakeCall) -> dict[str, Any]:
        assert "emailAddress" in call.params["fields"]
        return {"user": {"emailAddress": READER}}

    def _drives(self, call: FakeCall) -> dict[str, Any]:
        assert "drives(id,name)" in call.params["fields"]
        return {"drives": [{"id": "D1", "name": "Team"}]}

    def _list(self, call: FakeCall) -> dict[str, Any]:
        params = call.require_only(
            *("q", "fields", "pageSize", "pageToken", "corpora", "driveId"),
            *("supportsAllDrives", "includeItemsFromAllDrives"),
        )
        drive = params.get("driveId", "my")
        assert (params["corpora"], params["includeItemsFromAllDrives"]) == (
            ("user", "false") if drive == "my" else ("drive", "true")
        )
        assert "trashed = false" in params["q"]
        wants_folders = f"mimeType = '{FOLDER}'" in params["q"]
        files = [
            file
            for _, file in sorted(self.files.items())
            if file.drive == drive and not file.trashed and (file.media_type == FOLDER) == wants_folders
        ]
        after = params.get("pageToken", "")
        page = [file for file in files if file.id > after][: self.page_size]
        more = bool(page) and files[-1] is not page[-1]
        token = {"nextPageToken": page[-1].id} if more else {}
        return {"files": [self.show(file) for file in page], **token}

    def _get(self, call: FakeCall, file: str) -> Any:
        if file not in self.files:
            raise FakeError(404)
        if call.params.get("alt") == "media":
            return SiteResponse(200, self.files[file].text.encode())
        assert call.params["supportsAllDrives"] == "true"
        return self.show(self.files[file])

    def _export(self, call: FakeCall, file: str) -> SiteResponse:
        self.exports.append(call.params["mimeType"])
        return SiteResponse(200, self.files[file].text.encode())

    def _permissions(self, call: FakeCall, file: str) -> dict[str, Any]:
        assert call.params["supportsAllDrives"] == "true"
        readers = self.drives[file].readers if file in self.drives else self.readers_of(self.files[file])
        return {"permissions": [_permission(reader) for reader in readers]}

    def show(self, file: DriveFile) -> dict[str, Any]:
        shown: dict[str, Any] = {
            "id": file.id,
            "name": file.name,
            "mimeType": file.media_type,
            "modifiedTime": file.modified,
            "parents": [file.parent or ("0root" if file.drive == "my" else file.drive)],
            "trashed": file.trashed,
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
            (
                "/groups/g-1/transitiveMembers/microsoft.graph.user",
                {"value": [{"id": "u-7", "userPrincipalName": "Cat@acme.example"}]},
            ),
        ]
        for path, body in answers:
            self.route("GET", f"/v1.0{path}", partial(self._fixed, body))
        self.route("GET", f"{prefix}/root/delta", self._delta)
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
        return "/items/" in call.path

    def check_authorization(self, call: FakeCall) -> None:
        if call.path.startswith("/download/"):
            assert "authorization" not in call.headers  # another host: it gets no token
        else:
            super().check_authorization(call)

    def _fixed(self, body: dict[str, Any], call: FakeCall) -> dict[str, Any]:
        assert "id" in call.params["$select"]
        return body

    def _delta(self, call: FakeCall, drive: str) -> dict[str, Any]:
        params = call.require_only("$select", "$top", "token")
        items = [file for file in self.files.values() if file.drive == drive and not file.trashed]
        start = int(params.get("token", 0))
        shown = [self.show(file) for file in items[start : start + self.page_size]]
        if start == 0:
            root: dict[str, Any] = {"id": f"root-{drive}", "name": "root", "root": {}, "folder": {}}
            shown.insert(0, root)
            shown.append({"id": "old", "deleted": {"state": "deleted"}})
        more = start + self.page_size < len(items)
        assert self.site is not None
        address = f"{self.site.url}{call.path}?token={start + self.page_size}"
        return {"value": shown, ("@odata.nextLink" if more else "@odata.deltaLink"): address}

    def _find(self, drive: str, item: str) -> DriveFile:
        file = self.files.get(item)
        if file is None or file.trashed or file.drive != drive:
            raise FakeError(404)
        return file

    def _item(self, call: FakeCall, drive: str, item: str) -> dict[str, Any]:
        assert "$select" in call.params
        file = self._find(drive, item)
        shown = self.show(file)
        shown["parentReference"]["path"] = f"/drives/{drive}/root:{self._folder_path(file)}"
        return shown

    def _folder_path(self, file: DriveFile) -> str:
        parent = self.files.get(file.parent or "")
        return "" if parent is None else f"{self._folder_path(parent)}/{parent.name.replace(' ', '%20')}"

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
