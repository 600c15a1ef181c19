"""Files in object stores: Amazon S3 and what speaks its protocol (MinIO, Ceph, R2), Google Cloud Storage, Azure.

`obstore` signs and sends the requests. It resolves names itself, so addresses are checked before: without
`allow_private_addresses`, an endpoint must use https and have a public address. Only the credentials of the connector are
used, never those of the machine. The ETag of an object is its mark. obstore does not return the header `Retry-After`: after
a rate limit the run waits a minute.

A run that was interrupted in the middle of a listing resumes it after the last name. Some stores ignore that and list everything
again, which does no harm; one that lists nothing is asked for everything.

`obstore` refuses a listing that has a name such as `a//b`. Buckets of S3 are then listed without such names (s3_listing.py); others are a
problem of the run, which names the object.
"""

import json
import re
from collections.abc import AsyncIterator, Callable, Generator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from urllib.parse import quote, urlsplit

from obstore.exceptions import BaseError, InvalidPathError
from obstore.store import AzureStore, GCSStore, ObjectStore, S3Store
from pydantic import Field, SecretStr, field_validator, model_validator

from gristmill import net
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
from gristmill.connectors.s3_listing import S3Listing
from gristmill.connectors.transport import CredentialsRejected, RateLimited
from gristmill.errors import Permanent, SourceGone, Transient, Unreadable

_PAGE_SIZE = 1000
_CHUNK = 1 << 20
_WAIT = timedelta(minutes=1)
_RETRIES: Any = {"max_retries": 3, "retry_timeout": timedelta(seconds=20)}
_STATUS = re.compile(r"status code: (\d{3})")
# How S3 and Azure say, in the bodies of errors, what their statuses don't.
_OTHER_REGION = (
    "incorrectly configured region",
    "<Code>AuthorizationHeaderMalformed<",
    "<Code>PermanentRedirect<",
)
_ARCHIVED = ("<Code>InvalidObjectState<", "<Code>BlobArchived<")
_REGION = re.compile(r"<Region>([a-z0-9-]{1,40})</Region>")
_INVALID_NAME = re.compile(r'[Pp]ath "((?:[^"\\]|\\.){1,300})"')
_BUCKET = r"^[A-Za-z0-9][A-Za-z0-9._-]{1,254}$"


class _UnsupportedName(Unreadable):
    """A listing has a name that `obstore` does not accept."""

    code = "connector_refused"


class _StoreConfig(FileFilter):
    """What the configurations of all object stores have."""

    prefix: str = Field(default="", max_length=1000, description="Only objects below this path.")
    endpoint: BaseUrl | None = Field(
        default=None, description="The address of the service, if it is your own."
    )

    @field_validator("prefix")
    @classmethod
    def _trim_slashes(cls, prefix: str) -> str:
        return prefix.strip("/")


class S3Config(_StoreConfig):
    """What to follow in a bucket of S3."""

    bucket: str = Field(pattern=_BUCKET, description="The bucket.")
    region: str = Field(default="us-east-1", pattern=r"^[a-z0-9-]+$", description="The bucket's region.")


class S3Credentials(ConnectorForm):
    """An access key; nothing for a public bucket."""

    access_key_id: str | None = Field(default=None, description="The id of an access key.")
    secret_access_key: SecretStr | None = Field(default=None, description="Its secret.")

    @model_validator(mode="after")
    def _check_both(self) -> "S3Credentials":
        if (self.access_key_id is None) != (self.secret_access_key is None):
            raise ValueError("give accessKeyId and secretAccessKey, or neither for a public bucket")
        return self


class GcsConfig(_StoreConfig):
    """What to follow in a bucket of Google Cloud Storage."""

    bucket: str = Field(pattern=_BUCKET, description="The bucket.")


class GcsCredentials(ConnectorForm):
    """A service account; nothing for a public bucket."""

    service_account_key: SecretStr | None = Field(
        default=None, description="The key of a service account, as JSON."
    )

    @field_validator("service_account_key")
    @classmethod
    def _check_key(cls, key: SecretStr | None) -> SecretStr | None:
        if key is not None:
            service_account(key.get_secret_value(), None)
        return key


class AzureConfig(_StoreConfig):
    """What to follow in a container of Azure Blob Storage."""

    account: str = Field(pattern=r"^[a-z0-9]{3,24}$", description="The storage account.")
    container: str = Field(pattern=_BUCKET, description="The container.")


class AzureCredentials(ConnectorForm):
    """A key of the account or a shared access signature; nothing for a public container."""

    account_key: SecretStr | None = Field(default=None, description="An access key of the account.")
    sas_token: SecretStr | None = Field(
        default=None, description="A shared access signature that may read and list."
    )


class ObjectStoreConnector(FileConnector):
    """One bucket or container."""

    def __init__(
        self,
        tool: str,
        name: str,
        store: ObjectStore,
        config: _StoreConfig,
        web_url: str,
        limits: ConnectorLimits,
        s3_listing: S3Listing | None = None,
    ) -> None:
        scope, transports = f"bucket:{name}/{config.prefix}", [s3_listing.http] if s3_listing else []
        super().__init__(tool, scope, config, limits.attachment_limit, *transports)
        self._s3_listing, self._has_odd_names = s3_listing, False
        self._name, self._store, self._prefix = name, store, config.prefix
        self._endpoint, self._web_url, self._limits = config.endpoint, web_url, limits
        self._pages: AsyncIterator[Sequence[Any]] | None = None  # of the listing that goes on
        self._last_cursor: str | None = None  # of the page that it returned last

    async def check(self) -> Account:
        """Whether the bucket can be listed."""
        await self.list_files(None)
        return Account(self._name, urlsplit(self._web_url).netloc)

    async def list_files(self, cursor: str | None) -> FilePage:
        """A page of the objects; the cursor is the last name. A listing that goes on is continued by the store's own tokens."""
        await self._check_address()
        if self._s3_listing is None or not self._has_odd_names:
            try:
                return await self._list_by_store(cursor)
            except _UnsupportedName:
                if self._s3_listing is None:
                    raise
                self._has_odd_names = True
        page = await self._s3_listing.read_page(self._prefix, cursor)
        note = f"{page.left_out} objects were left out: their names have empty parts, a dot for a part, or control characters."
        files = [self._file(entry) for entry in page.objects]
        return FilePage(files, page.last_name, note if page.left_out else None)

    async def _list_by_store(self, cursor: str | None) -> FilePage:
        is_resumed = cursor is not None and cursor != self._last_cursor
        pages = self._pages
        if pages is None or cursor is None or is_resumed:
            pages = self._store.list(self._prefix or None, offset=cursor, chunk_size=_PAGE_SIZE)
        self._pages, self._last_cursor = pages, None  # after an error, the listing is resumed by name
        with self._translate_errors(is_listing=True):
            try:
                objects = await anext(pages)
            except StopAsyncIteration:
                objects = ()
        if is_resumed and not objects:
            # OneLake returns nothing where it should start at a name. Nothing may be deleted because of that.
            raise SourceGone(f"{self._name} lists nothing after {cursor}: the listing starts over.")
        if len(objects) == _PAGE_SIZE:
            self._last_cursor = str(objects[-1]["path"])
        files = [self._file(entry) for entry in objects if not entry["path"].endswith("/")]
        return FilePage(files, self._last_cursor)

    async def find_file(self, path: str) -> RemoteFile:
        """One object as it is now."""
        await self._check_address()
        with self._translate_errors():
            return self._file(await self._store.head_async(self._key(path)))

    async def read_file(self, path: str) -> AsyncIterator[bytes]:
        """The bytes of an object."""
        await self._check_address()
        with self._translate_errors():
            response = await self._store.get_async(self._key(path))
            async for piece in response.stream(min_chunk_size=_CHUNK):
                yield bytes(piece)

    def _file(self, entry: Any) -> RemoteFile:
        path = str(entry["path"]).removeprefix(f"{self._prefix}/" if self._prefix else "")
        modified = entry["last_modified"]
        return RemoteFile(
            path,
            mark=_quote_etag(entry["e_tag"]) or entry["version"] or f"{modified.isoformat()} {entry['size']}",
            size=entry["size"],
            updated_at=modified,
            url=f"{self._web_url}/{quote(str(entry['path']))}",
        )

    def _key(self, path: str) -> str:
        return f"{self._prefix}/{path}" if self._prefix else path

    async def _check_address(self) -> None:
        if self._endpoint is None or self._limits.allow_private:
            return
        if not self._endpoint.startswith("https:"):
            # obstore looks the name up again: only a certificate proves that it is the same host.
            raise Permanent("The endpoint of an object store must use https.", code="connector_refused")
        await net.check_public(self._endpoint)

    @contextmanager
    def _translate_errors(self, *, is_listing: bool = False) -> Generator[None]:
        try:
            yield
        except FileNotFoundError:
            raise SourceGone(f"The object is no longer in {self._name}.") from None
        except InvalidPathError as error:
            name = _INVALID_NAME.search(str(error))
            raise _UnsupportedName(
                f"{self._name} can't be listed because of an object named {name[1] if name else '?'!r}: an empty part, a dot for a part "
                "and control characters are not supported in names. Rename it, or set prefix to a folder that does not contain it."
            ) from None
        except (OSError, BaseError) as error:
            # Without the error's text: it may repeat the request.
            known = self._error_in(str(error))
            raise known or self._error_of(_status(error), is_listing=is_listing) from None

    def _error_in(self, text: str) -> Permanent | None:
        """What a status does not say: another region, and objects that have to be restored before they can be read."""
        if any(sign in text for sign in _OTHER_REGION):
            region = _REGION.search(text)
            name = f" ({region[1]})" if region else ""
            message = f"{self._name} is in another region. Set region to that of the bucket{name}."
            return Unreadable(message, code="connector_scope_missing")
        if any(sign in text for sign in _ARCHIVED):
            message = f"An object of {self._name} is archived. Restore it, or leave it out by exclude."
            return Unreadable(message, code="connector_refused")
        return None

    def _error_of(self, status: int | None, *, is_listing: bool) -> Permanent | Transient:
        match status:
            case 401:
                return CredentialsRejected(
                    f"{self._name} rejects the credentials (status 401). Enter new ones."
                )
            case 403 if is_listing:
                message = f"{self._name} rejects the credentials, or they may not list it (status 403)."
                return CredentialsRejected(message)
            case 403:
                return Unreadable(
                    f"These credentials can't read an object of {self._name} (status 403).",
                    code="connector_forbidden",
                )
            case 404:
                return Unreadable(
                    f"There is no bucket named {self._name} (status 404). Correct its name or its region.",
                    code="connector_scope_missing",
                )
            case 429:
                return RateLimited(f"{self._name} is rate limited (status 429).", retry_after=_WAIT)
            case None:
                return Transient(f"{self._name} can't be reached.", code="connector_unavailable")
            case _ if status >= 500:
                return Transient(f"{self._name} returned status {status}.", code="connector_unavailable")
            case _:
                return Unreadable(f"{self._name} returned status {status}.", code="connector_refused")


def _quote_etag(etag: str | None) -> str | None:
    """An ETag in quotes: Azure's listings name it without them, and everything else with them."""
    return etag if etag is None or etag.endswith('"') else f'"{etag}"'


def _status(error: Exception) -> int | None:
    match = _STATUS.search(str(error))
    return None if match is None else int(match[1])


def _open_store(
    store_class: Callable[..., ObjectStore], name: str, options: dict[str, Any], limits: ConnectorLimits
) -> ObjectStore:
    try:
        return store_class(
            name, client_options={"allow_http": limits.allow_private}, retry_config=_RETRIES, **options
        )
    except BaseError:
        # A key that is not base64 or PEM. Without the error's text: it may repeat it.
        raise CredentialsRejected(f"The credentials for {name} are incomplete. Copy them again.") from None


def _open_s3(config: S3Config, credentials: S3Credentials, limits: ConnectorLimits) -> Connector:
    endpoint = config.endpoint or f"https://s3.{config.region}.amazonaws.com"
    secret = credentials.secret_access_key
    options: dict[str, Any] = (
        {"skip_signature": True}
        if secret is None
        else {"access_key_id": credentials.access_key_id, "secret_access_key": secret.get_secret_value()}
    )
    options |= {"endpoint": endpoint, "region": config.region, "virtual_hosted_style_request": False}
    store = _open_store(S3Store, config.bucket, options, limits)
    address, key = f"{endpoint}/{config.bucket}", "" if secret is None else secret.get_secret_value()
    listing = S3Listing(limits.transport(address, {}), address, config.region, credentials.access_key_id, key)
    return ObjectStoreConnector("s3", config.bucket, store, config, address, limits, listing)


def service_account(key: str, endpoint: str | None) -> str:
    """The key of a service account with only the fields that sign; the others could name addresses."""
    try:
        fields = json.loads(key)
        account = {name: str(fields[name]) for name in ("private_key", "private_key_id", "client_email")}
    except (ValueError, KeyError, TypeError):
        raise ValueError(
            "must be the key of a service account: JSON with private_key and client_email"
        ) from None
    return json.dumps(
        {"type": "service_account", **account, **({"gcs_base_url": endpoint} if endpoint else {})}
    )


def _open_gcs(config: GcsConfig, credentials: GcsCredentials, limits: ConnectorLimits) -> Connector:
    key = credentials.service_account_key
    options: dict[str, Any] = {"skip_signature": True}
    if config.endpoint is not None:
        options["base_url"] = config.endpoint
    if key is not None:
        options = {"service_account_key": service_account(key.get_secret_value(), config.endpoint)}
    store = _open_store(GCSStore, config.bucket, options, limits)
    web_url = f"{config.endpoint or 'https://storage.cloud.google.com'}/{config.bucket}"
    return ObjectStoreConnector("gcs", config.bucket, store, config, web_url, limits)


def _open_azure(config: AzureConfig, credentials: AzureCredentials, limits: ConnectorLimits) -> Connector:
    endpoint = config.endpoint or f"https://{config.account}.blob.core.windows.net"
    options: dict[str, Any] = {"skip_signature": True}
    if credentials.account_key is not None:
        options = {"account_key": credentials.account_key.get_secret_value()}
    elif credentials.sas_token is not None:
        options = {"sas_token": credentials.sas_token.get_secret_value()}
    options |= {"account_name": config.account, "endpoint": endpoint}
    store = _open_store(AzureStore, config.container, options, limits)
    return ObjectStoreConnector(
        "azure",
        f"{config.account}/{config.container}",
        store,
        config,
        f"{endpoint}/{config.container}",
        limits,
    )


S3 = ConnectorKind(
    "s3", S3Config, S3Credentials, _open_s3, CHECKPOINT_VERSION, "Amazon S3, MinIO, R2", has_permissions=False
)
GCS = ConnectorKind(
    "gcs",
    GcsConfig,
    GcsCredentials,
    _open_gcs,
    CHECKPOINT_VERSION,
    "Google Cloud Storage",
    has_permissions=False,
)
AZURE = ConnectorKind(
    "azure",
    AzureConfig,
    AzureCredentials,
    _open_azure,
    CHECKPOINT_VERSION,
    "Azure Blob Storage",
    has_permissions=False,
)
KINDS = (S3, GCS, AZURE)
