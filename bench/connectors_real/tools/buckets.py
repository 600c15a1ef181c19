"""Object stores: a bucket of MinIO, a container of Azurite, a bucket of fake-gcs-server."""

from contextlib import ExitStack
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import httpx
import obstore
from obstore.store import AzureStore, S3Store

from bench.connectors_real.tool import FileTool, Place, ServerAddress
from tests.connectors.fakes.files import service_account_key
from tests.connectors.servers import azurite, go_programs

_BUCKET, _PREFIX = "mill", "docs"
_MORE_THAN_A_PAGE = 1200  # the connector takes 1000 names at a time


class BucketTool(FileTool):
    """A bucket or container that `obstore` writes to."""

    limited_requests = 16  # four documents at once, and each request is repeated three times
    _store: S3Store | AzureStore

    def write(self, path: str, text: str) -> None:
        self._store.put(f"{_PREFIX}/{path}", text.encode())

    def remove(self, path: str) -> None:
        self._store.delete(f"{_PREFIX}/{path}")

    def move(self, old: str, new: str) -> None:
        self._store.copy(f"{_PREFIX}/{old}", f"{_PREFIX}/{new}")
        self.remove(old)


class S3Tool(BucketTool):
    """A bucket of MinIO."""

    name = kind = "s3"

    def start(self, stack: ExitStack, place: Place) -> ServerAddress:
        url, build = stack.enter_context(go_programs.run_minio(place.subfolder("minio"), place.cache))
        self.server = f"MinIO of {build.split('-')[1][:8]}"
        self._store = S3Store(
            _BUCKET,
            endpoint=url,
            region="us-east-1",
            access_key_id=go_programs.ACCESS_KEY,
            secret_access_key=go_programs.SECRET_KEY,
            client_options={"allow_http": True},
        )
        # To put the empty name is to create the bucket.
        httpx.put(obstore.sign(self._store, "PUT", "", timedelta(minutes=1))).raise_for_status()
        self.fill()
        return ServerAddress.of(url)

    def config(self, url: str) -> dict[str, Any]:
        return {"bucket": _BUCKET, "prefix": _PREFIX, "endpoint": url}

    def credentials(self) -> dict[str, Any]:
        return {"accessKeyId": go_programs.ACCESS_KEY, "secretAccessKey": go_programs.SECRET_KEY}


class AzureTool(BucketTool):
    """A container of Azurite, which has its account in the path. A copy has an ETag of its own, as in Azure."""

    name = kind = "azure"
    keeps_record_when_renamed = False
    pictures = _MORE_THAN_A_PAGE

    def start(self, stack: ExitStack, place: Place) -> ServerAddress:
        url = stack.enter_context(azurite.run_azurite(place.subfolder("azurite"), place.cache))
        self.server = f"Azurite {azurite.VERSION}"
        self._store = AzureStore(
            _BUCKET,
            account_name=azurite.ACCOUNT,
            account_key=azurite.ACCOUNT_KEY,
            endpoint=url,
            client_options={"allow_http": True},
        )
        azurite.create_container(url, _BUCKET)
        self.fill()
        return ServerAddress.of(url)

    def config(self, url: str) -> dict[str, Any]:
        endpoint = f"{url}/{azurite.ACCOUNT}"
        return {
            "account": azurite.ACCOUNT,
            "container": _BUCKET,
            "prefix": _PREFIX,
            "endpoint": endpoint,
        }

    def credentials(self) -> dict[str, Any]:
        return {"accountKey": azurite.ACCOUNT_KEY}


class GcsTool(FileTool):
    """A bucket of fake-gcs-server, which accepts all credentials. The connector reads by the XML API; the bench writes by the JSON API."""

    name = kind = "gcs"
    limited_requests = 16
    pictures = _MORE_THAN_A_PAGE
    _client: httpx.Client

    def start(self, stack: ExitStack, place: Place) -> ServerAddress:
        url, build = stack.enter_context(
            go_programs.run_fake_gcs_server(place.subfolder("fake-gcs-server"), place.cache)
        )
        self.server = f"fake-gcs-server {build.removeprefix('v')}"
        self._client = stack.enter_context(httpx.Client(base_url=url, timeout=60))
        self._send("POST", "/storage/v1/b", json={"name": _BUCKET})
        self.fill()
        return ServerAddress.of(url)

    def config(self, url: str) -> dict[str, Any]:
        return {"bucket": _BUCKET, "prefix": _PREFIX, "endpoint": url}

    def credentials(self) -> dict[str, Any]:
        return {"serviceAccountKey": service_account_key()}

    def write(self, path: str, text: str) -> None:
        params = {"uploadType": "media", "name": f"{_PREFIX}/{path}"}
        self._send("POST", f"/upload/storage/v1/b/{_BUCKET}/o", params=params, content=text.encode())

    def remove(self, path: str) -> None:
        self._send("DELETE", _object_path(path))

    def move(self, old: str, new: str) -> None:
        self._send("POST", f"{_object_path(old)}/rewriteTo{_object_path(new).removeprefix('/storage/v1')}")
        self.remove(old)

    def _send(self, method: str, path: str, **options: Any) -> None:
        self._client.request(method, path, **options).raise_for_status()


def _object_path(path: str) -> str:
    return f"/storage/v1/b/{_BUCKET}/o/{quote(f'{_PREFIX}/{path}', safe='')}"
