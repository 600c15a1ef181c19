"""Files on a WebDAV server: Nextcloud, ownCloud, Apache, SharePoint's and NAS boxes' WebDAV.

Folders are listed one by one (`PROPFIND`, depth 1), because many servers refuse to list a whole tree. The cursor of the
listing is the folders that are still to be listed. A folder that the credentials may not list is left out, and the run says so. The
mark of a file is its ETag, or its time and size where the server
has no ETags. Whether an ETag is weak is no part of the mark: Apache's are weak in the first second after a change. Nextcloud and ownCloud give files ids that stay when a file is moved; then the id names the document.
"""

import base64
import json
from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from email.utils import parsedate_to_datetime
from urllib.parse import quote, unquote, urlsplit
from xml.etree.ElementTree import Element

from pydantic import Field, SecretStr, field_validator, model_validator

from gristmill.connectors.files import (
    CHECKPOINT_VERSION,
    FileConnector,
    FileFilter,
    FilePage,
    RemoteFile,
)
from gristmill.connectors.port import (
    Account,
    BaseUrl,
    Connector,
    ConnectorForm,
    ConnectorKind,
    ConnectorLimits,
)
from gristmill.connectors.safe_xml import parse_xml
from gristmill.connectors.transport import FORBIDDEN, Transport
from gristmill.errors import SourceGone, Unreadable

_MAX_LISTING_BYTES = 64 << 20
_PROPERTIES = (
    b'<?xml version="1.0" encoding="utf-8"?><d:propfind xmlns:d="DAV:" xmlns:oc="http://owncloud.org/ns"><d:prop>'
    b"<d:resourcetype/><d:getetag/><d:getcontentlength/><d:getlastmodified/><oc:fileid/></d:prop></d:propfind>"
)
_NAMES = {"d": "DAV:", "oc": "http://owncloud.org/ns"}


class WebDavConfig(FileFilter):
    """What to follow on a WebDAV server."""

    base_url: BaseUrl = Field(
        description="The address of the files: `https://HOST/remote.php/dav/files/USER` for Nextcloud."
    )
    folder: str = Field(default="", max_length=1000, description="Only files below this folder.")

    @field_validator("folder")
    @classmethod
    def _trim_slashes(cls, folder: str) -> str:
        return folder.strip("/")


class WebDavCredentials(ConnectorForm):
    """A user with a password, or a token; nothing for a public server."""

    username: str | None = Field(default=None, description="The user.")
    password: SecretStr | None = Field(default=None, description="Their password, or better an app password.")
    token: SecretStr | None = Field(
        default=None, description="A bearer token, in place of user and password."
    )

    @model_validator(mode="after")
    def _check_one_method(self) -> "WebDavCredentials":
        if (self.username is None) != (self.password is None) or (self.token and self.password):
            raise ValueError("give username and password, or a token, or neither")
        return self


class WebDavConnector(FileConnector):
    """A folder on a WebDAV server."""

    def __init__(self, config: WebDavConfig, http: Transport, limits: ConnectorLimits) -> None:
        super().__init__("webdav", f"folder:{config.folder}", config, limits.attachment_limit, http)
        self._config, self._http = config, http
        self._root = unquote(urlsplit(config.base_url).path).rstrip("/")

    async def check(self) -> Account:
        """Whether the folder can be listed."""
        await self._list(self._config.folder, depth="0")
        return Account(urlsplit(self._config.base_url).netloc, self._config.folder or "/")

    async def list_files(self, cursor: str | None) -> FilePage:
        """The files of one folder; the cursor is the folders that are still to be listed."""
        folders: list[str] = [self._config.folder] if cursor is None else json.loads(cursor)
        folder = folders.pop()
        files: list[RemoteFile] = []
        try:
            for file, is_folder in await self._list(folder, depth="1"):
                if not is_folder:
                    files.append(file)
                elif file.path != folder:
                    folders.append(file.path)
        except SourceGone:
            if folder == self._config.folder:
                raise
            # It was deleted since its parent was listed.
        except Unreadable as error:
            if folder == self._config.folder or error.code != FORBIDDEN:
                raise
            self.closed.append(f"{error.message} The files below it are left out. ({error.code})")
        return FilePage(files, json.dumps(folders) if folders else None)

    async def find_file(self, path: str) -> RemoteFile:
        """One file as it is now."""
        for file, is_folder in await self._list(path, depth="0"):
            if not is_folder:
                return file
        raise SourceGone(f"{path} is no longer a file.")

    async def read_file(self, path: str) -> AsyncIterator[bytes]:
        """The bytes of a file."""
        async for piece in self._http.stream(_url_path(path)):
            yield piece

    async def _list(self, path: str, *, depth: str) -> list[tuple[RemoteFile, bool]]:
        body = await self._http.raw(
            "PROPFIND",
            _url_path(path),
            body=_PROPERTIES,
            limit=_MAX_LISTING_BYTES,
            Depth=depth,
            Content_Type="application/xml",
        )
        try:
            return list(self._parse(body))
        except ValueError:
            raise Unreadable(
                "The server did not return a WebDAV listing: is the address right?", code="connector_refused"
            ) from None

    def _parse(self, body: bytes) -> Iterator[tuple[RemoteFile, bool]]:
        tree = parse_xml(body)
        if tree.tag != "{DAV:}multistatus":
            raise ValueError(tree.tag)
        for response in tree.iterfind("d:response", _NAMES):
            address = unquote(urlsplit(response.findtext("d:href", "", _NAMES).strip()).path)
            if not f"{address}/".startswith(f"{self._root}/"):
                raise Unreadable(
                    f"The server names its files below {address}, not below {self._root}. A proxy may have changed the path: set "
                    "baseUrl to the address of the server itself.",
                    code="connector_refused",
                )
            path = address.removeprefix(self._root).strip("/")

            def text(name: str, element: Element = response) -> str | None:
                return element.findtext(f"d:propstat/d:prop/{name}", None, _NAMES) or None

            size, modified = text("d:getcontentlength"), text("d:getlastmodified")
            yield (
                RemoteFile(
                    path,
                    mark=(text("d:getetag") or "").removeprefix("W/") or f"{modified} {size}",
                    size=int(size) if size else None,
                    updated_at=_parse_date(modified),
                    url=self._config.base_url + _url_path(path),
                    id=text("oc:fileid"),
                ),
                response.find("d:propstat/d:prop/d:resourcetype/d:collection", _NAMES) is not None,
            )


def _url_path(path: str) -> str:
    return f"/{quote(path)}" if path else "/"


def _parse_date(text: str | None) -> datetime | None:
    try:
        return None if text is None else parsedate_to_datetime(text)
    except ValueError:
        return None


def basic_authorization(username: str, password: str) -> str:
    """The Authorization header for a user and a password."""
    return f"Basic {base64.b64encode(f'{username}:{password}'.encode()).decode()}"


def _open(config: WebDavConfig, credentials: WebDavCredentials, limits: ConnectorLimits) -> Connector:
    headers: dict[str, str] = {}
    if credentials.token is not None:
        headers["Authorization"] = f"Bearer {credentials.token.get_secret_value()}"
    elif credentials.username is not None and credentials.password is not None:
        headers["Authorization"] = basic_authorization(
            credentials.username, credentials.password.get_secret_value()
        )
    return WebDavConnector(config, limits.transport(config.base_url, headers), limits)


KIND = ConnectorKind(
    "webdav",
    WebDavConfig,
    WebDavCredentials,
    _open,
    CHECKPOINT_VERSION,
    "WebDAV, Nextcloud",
    has_permissions=False,
)
