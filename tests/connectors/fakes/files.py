"""Fakes of places with files: an S3 bucket, a WebDAV folder and a git repository."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, quote_plus
from xml.sax.saxutils import escape

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.connectors.fakes.git_pack import pack_files, packet
from tests.connectors.fakes.tool import (
    SECRET,
    ExpectedDocument,
    FakeCall,
    FakeError,
    FakeTool,
    words_in,
)
from tests.sources.site import SiteResponse

EVERYONE = frozenset({"org:*"})


class FakeFiles(FakeTool):
    """A tree of files. A few are not followed: they are of another format."""

    has_permissions = False
    separator = "/"

    def __init__(self) -> None:
        super().__init__()
        self.files: dict[str, str] = {"image.png": "pixels", "old/archive.zip": "bytes"}
        for _ in range(12):
            self.add()

    def etag(self, path: str) -> str:
        """The hash of a file."""
        return hashlib.md5(self.files[path].encode(), usedforsecurity=False).hexdigest()

    def followed(self) -> list[str]:
        """The paths that are followed."""
        return [path for path in sorted(self.files) if path.endswith((".md", ".txt"))]

    def expected_documents(self) -> dict[str, ExpectedDocument]:
        return {
            f"file:{path}": ExpectedDocument(words_in(self.files[path]), EVERYONE) for path in self.followed()
        }

    def add(self) -> None:
        number = self.new_id()
        folder = ("", "guides/", "guides/deep er/")[number % 3]
        self.files[f"{folder}file {number}.{'md' if number % 2 else 'txt'}"] = f"text {self.new_word()}"

    def edit(self, pick: int) -> None:
        self.files[self.followed()[pick % len(self.followed())]] = f"text {self.new_word()} {self.new_word()}"

    def delete(self, pick: int) -> None:
        if len(self.followed()) > 8:
            del self.files[self.followed()[pick % len(self.followed())]]

    def move_document(self, pick: int) -> None:
        path = self.followed()[pick % len(self.followed())]
        self.files[f"moved{self.separator}{self.new_id()}.md"] = self.files.pop(path)


class FakeS3(FakeFiles):
    """A bucket, with the part of S3's API that `obstore` uses."""

    kind = "s3"
    tries = 4

    def __init__(self) -> None:
        super().__init__()
        self.route("GET", "/bucket", self._list)
        self.route("GET", "/bucket/(?P<key>.+)", self._get)
        self.route("HEAD", "/bucket/(?P<key>.+)", self._get)

    def config(self) -> dict[str, Any]:
        assert self.site is not None
        return {"bucket": "bucket", "endpoint": self.site.url, "prefix": "docs"}

    def credentials(self) -> dict[str, Any]:
        return {"accessKeyId": "key", "secretAccessKey": SECRET}

    def check_authorization(self, call: FakeCall) -> None:
        if not call.headers.get("authorization", "").startswith("AWS4-HMAC-SHA256 Credential=key/"):
            raise FakeError(403)

    def is_detail(self, call: FakeCall) -> bool:
        return call.path.startswith("/bucket/")

    def _list(self, call: FakeCall) -> SiteResponse:
        params = call.require_only(
            "list-type", "prefix", "start-after", "continuation-token", "encoding-type"
        )
        is_encoded = params.get("encoding-type") == "url"
        assert params["prefix"] == "docs/"
        after = params.get("continuation-token") or params.get("start-after") or ""
        keys = sorted(f"docs/{path}" for path in self.files)
        page = [key for key in keys if key > after][: self.page_size]
        rest = [key for key in keys if page and key > page[-1]]
        contents = "".join(
            f"<Contents><Key>{quote_plus(key, safe='/') if is_encoded else escape(key)}</Key><LastModified>{self.now:%Y-%m-%dT%H:%M:%S.000Z}</LastModified>"
            f'<ETag>"{self.etag(key[5:])}"</ETag><Size>{len(self.files[key[5:]])}</Size></Contents>'
            for key in page
        )
        token = f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>" if rest else ""
        encoding = "<EncodingType>url</EncodingType>" if is_encoded else ""
        return _xml(f"<ListBucketResult>{encoding}{contents}{token}</ListBucketResult>")

    def _get(self, call: FakeCall, key: str) -> SiteResponse:
        path = key.removeprefix("docs/")
        if path not in self.files:
            raise FakeError(404)
        body = self.files[path].encode()
        headers = {"ETag": f'"{self.etag(path)}"', "Last-Modified": f"{self.now:%a, %d %b %Y %H:%M:%S GMT}"}
        return SiteResponse(200, body, headers)


def service_account_key() -> str:
    """A new key of a service account of Google, as JSON."""
    private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    return json.dumps({"private_key": pem, "private_key_id": "1", "client_email": "robot@p.example"})


class FakeWebDav(FakeFiles):
    """A WebDAV server that has no ETags of folders, and refuses to list a whole tree."""

    kind = "webdav"

    def __init__(self) -> None:
        super().__init__()
        self.route("PROPFIND", "/dav/(?P<path>.*)", self.show_folder)
        self.route("GET", "/dav/(?P<path>.*)", self._get)

    def config(self) -> dict[str, Any]:
        assert self.site is not None
        return {"baseUrl": f"{self.site.url}/dav"}

    def is_detail(self, call: FakeCall) -> bool:
        return call.method == "GET" or call.headers.get("depth") == "0"

    def answer(self, request: Any) -> SiteResponse:
        if request.method == "PROPFIND":
            assert b"getetag" in request.body
            request = type(request)(request.method, request.path, request.headers, b"")
        return super().answer(request)

    def show_folder(self, call: FakeCall, path: str) -> SiteResponse:
        """A folder or a file, with what is directly in it if that is asked for."""
        assert call.headers["depth"] in ("0", "1")
        folders = {"", *(path.rpartition("/")[0] for path in self.files)}
        folders |= {folder.rpartition("/")[0] for folder in folders}
        if path not in self.files and path not in folders:
            raise FakeError(404)
        entries = [path]
        if call.headers["depth"] == "1":
            entries += [
                entry
                for entry in sorted({*self.files, *folders} - {path, ""})
                if entry.rpartition("/")[0] == path
            ]
        shown = "".join(self._show(entry) for entry in entries)
        return _xml(f'<d:multistatus xmlns:d="DAV:">{shown}</d:multistatus>', 207)

    def _show(self, path: str) -> str:
        properties = "<d:resourcetype><d:collection/></d:resourcetype>"
        if path in self.files:
            properties = (
                f'<d:resourcetype/><d:getetag>"{self.etag(path)}"</d:getetag>'
                f"<d:getcontentlength>{len(self.files[path])}</d:getcontentlength>"
            )
        prop = f"<d:propstat><d:prop>{properties}</d:prop><d:status>HTTP/1.1 200 OK</d:status></d:propstat>"
        return f"<d:response><d:href>/dav/{quote(path)}</d:href>{prop}</d:response>"

    def _get(self, call: FakeCall, path: str) -> SiteResponse:
        del call
        if path not in self.files:
            raise FakeError(404)
        return SiteResponse(200, self.files[path].encode())


class FakeGitServer(FakeFiles):
    """A git repository over smart HTTP, in which all files are at the top."""

    kind = "git"
    reads_at_once = True
    separator = " "

    def __init__(self) -> None:
        super().__init__()
        self.route("GET", "/team/docs.git/info/refs", self._refs)
        self.route("POST", "/team/docs.git/git-upload-pack", self._pack)

    def config(self) -> dict[str, Any]:
        assert self.site is not None
        return {"url": f"{self.site.url}/team/docs.git", "branch": "main"}

    def credentials(self) -> dict[str, Any]:
        return {"password": SECRET}

    def check_authorization(self, call: FakeCall) -> None:
        if not call.headers.get("authorization", "").startswith("Basic "):
            raise FakeError(401)

    def add(self) -> None:
        self.files[f"file {self.new_id()}.md"] = f"text {self.new_word()}"

    def is_detail(self, call: FakeCall) -> bool:
        return call.path.endswith("git-upload-pack")

    def _flat_files(self) -> Mapping[str, str]:
        return {path.replace("/", "-"): text for path, text in self.files.items()}

    def _refs(self, call: FakeCall) -> SiteResponse:
        assert call.params == {"service": "git-upload-pack"}
        commit, _ = pack_files(dict(self._flat_files()))
        lines = [packet(b"# service=git-upload-pack\n"), b"0000"]
        lines.append(packet(f"{commit} HEAD\0no-progress ofs-delta\n".encode()))
        lines.append(packet(f"{commit} refs/heads/main\n".encode()) + b"0000")
        return SiteResponse(200, b"".join(lines))

    def _pack(self, call: FakeCall) -> SiteResponse:
        commit, pack = pack_files(dict(self._flat_files()))
        if f"want {commit}".encode() not in call.body:
            raise FakeError(404)
        return SiteResponse(200, packet(f"shallow {commit}".encode()) + b"0000" + packet(b"NAK\n") + pack)


def _xml(body: str, status: int = 200) -> SiteResponse:
    return SiteResponse(status, f"<?xml version='1.0'?>{body}".encode(), {"Content-Type": "application/xml"})
