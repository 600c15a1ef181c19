"""The part of S3 that the blob store uses, on a loopback port: objects, multipart uploads, copies, lists."""

import re
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from threading import Lock
from urllib.parse import parse_qs, unquote, urlsplit

from tests.sources.site import Site, SiteRequest, SiteResponse, serve


@dataclass
class FakeBucket:
    """The contents of a bucket; with `failure_status`, every request fails with that status."""

    site: Site
    objects: dict[str, tuple[bytes, datetime]] = field(default_factory=dict[str, tuple[bytes, datetime]])
    uploads: dict[str, dict[int, bytes]] = field(default_factory=dict[str, dict[int, bytes]])
    failure_status: int | None = None
    lock: Lock = field(default_factory=Lock)

    def environment(self) -> dict[str, str]:
        """The environment variables that point an S3 client to this bucket."""
        return {
            "AWS_ENDPOINT": self.site.url,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "test-key",
            "AWS_SECRET_ACCESS_KEY": "something",
            "AWS_REGION": "us-east-1",
        }

    def respond(self, request: SiteRequest) -> SiteResponse:
        """The response of S3 to a request."""
        if self.failure_status is not None:
            return SiteResponse(self.failure_status)
        parts = urlsplit(request.path)
        query = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        key = unquote(parts.path).partition("/")[2].partition("/")[2]
        with self.lock:
            match request.method:
                case "POST":
                    return self._post(key, query, request.body)
                case "PUT":
                    return self._put(key, query, request)
                case "DELETE":
                    self.objects.pop(key, None)
                    self.uploads.pop(query.get("uploadId", ""), None)
                    return SiteResponse(204)
                case _:
                    return self._list(query) if "list-type" in query else self._get(key, request)

    def _put(self, key: str, query: dict[str, str], request: SiteRequest) -> SiteResponse:
        if "uploadId" in query:
            self.uploads[query["uploadId"]][int(query["partNumber"])] = request.body
            return SiteResponse(headers={"ETag": '"part"'})
        headers = {name.lower(): value for name, value in request.headers.items()}
        if headers.get("if-none-match") == "*" and key in self.objects:
            return SiteResponse(412)
        source = headers.get("x-amz-copy-source")
        if source is None:
            self._store(key, request.body)
            return SiteResponse(headers={"ETag": '"whole"'})
        self._store(key, self.objects[unquote(source).partition("/")[2]][0])
        return SiteResponse(body=b"<CopyObjectResult><ETag>x</ETag></CopyObjectResult>")

    def _post(self, key: str, query: dict[str, str], body: bytes) -> SiteResponse:
        if "uploads" in query:
            name = f"upload-{len(self.uploads)}"
            self.uploads[name] = {}
            body_xml = (
                f"<InitiateMultipartUploadResult><UploadId>{name}</UploadId></InitiateMultipartUploadResult>"
            )
            return SiteResponse(body=body_xml.encode())
        if "uploadId" in query:
            parts = self.uploads.pop(query["uploadId"])
            self._store(key, b"".join(parts[number] for number in sorted(parts)))
            return SiteResponse(
                body=b"<CompleteMultipartUploadResult><ETag>x</ETag></CompleteMultipartUploadResult>"
            )
        names = re.findall(r"<Key>(.*?)</Key>", body.decode())
        for name in names:
            self.objects.pop(name, None)
        entries = "".join(f"<Deleted><Key>{name}</Key></Deleted>" for name in names)
        return SiteResponse(body=f"<DeleteResult>{entries}</DeleteResult>".encode())

    def _get(self, key: str, request: SiteRequest) -> SiteResponse:
        if key not in self.objects:
            return SiteResponse(404)
        data, stored_at = self.objects[key]
        headers = {"ETag": '"x"', "Last-Modified": format_datetime(stored_at, usegmt=True)}
        range_header = {name.lower(): value for name, value in request.headers.items()}.get("range")
        if range_header is None:
            return SiteResponse(body=data, headers=headers)
        first, last = (int(number) for number in range_header.removeprefix("bytes=").split("-"))
        part = data[first : last + 1]
        headers["Content-Range"] = f"bytes {first}-{first + len(part) - 1}/{len(data)}"
        return SiteResponse(206, part, headers)

    def _list(self, query: dict[str, str]) -> SiteResponse:
        contents = "".join(
            f"<Contents><Key>{key}</Key><LastModified>{stored_at.isoformat()}</LastModified>"
            f"<ETag>x</ETag><Size>{len(data)}</Size></Contents>"
            for key, (data, stored_at) in sorted(self.objects.items())
            if key.startswith(query.get("prefix", ""))
        )
        return SiteResponse(body=f"<ListBucketResult>{contents}</ListBucketResult>".encode())

    def _store(self, key: str, data: bytes) -> None:
        self.objects[key] = (data, datetime.now(UTC))


@contextmanager
def run_bucket() -> Generator[FakeBucket]:
    """An empty bucket, under any name."""
    with serve() as site:
        fake = FakeBucket(site)
        site.fallback = fake.respond
        yield fake
