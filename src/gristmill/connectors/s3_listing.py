"""Listings of S3 (ListObjectsV2), requested and signed here: for buckets with names that `obstore` refuses.

One object whose name has an empty part (`a//b`), a dot or two for a part, or control characters makes `obstore` refuse the whole listing.
Here such names are counted and left out: it could not read them either. All other objects are as `obstore` lists them.
"""

import hashlib
import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, unquote_plus, urlsplit
from xml.etree.ElementTree import Element

from gristmill.connectors.safe_xml import parse_xml
from gristmill.connectors.transport import Transport
from gristmill.errors import Unreadable

_MAX_BYTES = 64 << 20
_EMPTY = hashlib.sha256(b"").hexdigest()
_SIGNED = "host;x-amz-content-sha256;x-amz-date"
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True)
class S3Page:
    """Objects as `obstore` describes them; how many names are not supported; and the last name, if there are more."""

    objects: Sequence[dict[str, Any]]
    left_out: int
    last_name: str | None


class S3Listing:
    """Lists one bucket; without a key, as anyone may."""

    def __init__(self, http: Transport, address: str, region: str, key_id: str | None, secret: str) -> None:
        self.http = http
        self._address, self._region, self._key_id, self._secret = address, region, key_id, secret

    async def read_page(self, prefix: str, after: str | None) -> S3Page:
        """The objects below a folder whose names come after one."""
        params = {"list-type": "2", "encoding-type": "url", "prefix": f"{prefix}/" if prefix else ""}
        params |= {"start-after": after} if after else {}
        query = "&".join(f"{name}={quote(value, safe='-_.~')}" for name, value in sorted(params.items()))
        url, signature = f"{self._address}?{query}", self._headers(query, datetime.now(UTC))
        body = await self.http.raw("GET", url, None, None, limit=_MAX_BYTES, **signature)
        try:
            return _parse(parse_xml(body))
        except ValueError:
            raise Unreadable(
                "The store did not return a listing of S3: is the endpoint right?", code="connector_refused"
            ) from None

    def _headers(self, query: str, now: datetime) -> dict[str, str]:
        """The signature, version 4."""
        if self._key_id is None:
            return {}
        url, time = urlsplit(self._address), f"{now:%Y%m%dT%H%M%SZ}"
        headers = f"host:{url.netloc}\nx-amz-content-sha256:{_EMPTY}\nx-amz-date:{time}\n"
        request = "\n".join(["GET", quote(url.path, safe="/-_.~"), query, headers, _SIGNED, _EMPTY])
        scope = f"{now:%Y%m%d}/{self._region}/s3/aws4_request"
        digest = hashlib.sha256(request.encode()).hexdigest()
        key = f"AWS4{self._secret}".encode()
        for part in (*scope.split("/"), f"AWS4-HMAC-SHA256\n{time}\n{scope}\n{digest}"):
            key = hmac.digest(key, part.encode(), "sha256")
        signature = f"Credential={self._key_id}/{scope}, SignedHeaders={_SIGNED}, Signature={key.hex()}"
        return {
            "Authorization": f"AWS4-HMAC-SHA256 {signature}",
            "x_amz_date": time,
            "x_amz_content_sha256": _EMPTY,
        }


def is_supported(name: str) -> bool:
    """Whether `obstore` can name an object."""
    return not (_CONTROL.search(name) or {"", ".", ".."} & set(name.split("/")))


def _parse(root: Element) -> S3Page:
    if root.tag.rpartition("}")[2] != "ListBucketResult":
        raise ValueError(root.tag)
    is_encoded = root.findtext("{*}EncodingType") == "url"
    objects: list[dict[str, Any]] = []
    last_name: str | None = None
    left_out = 0
    for entry in root.iterfind("{*}Contents"):
        name = entry.findtext("{*}Key") or ""
        last_name = name = unquote_plus(name) if is_encoded else name
        if name.endswith("/") and is_supported(name[:-1]):
            continue  # a folder, as some programs mark it
        if not is_supported(name):
            left_out += 1
            continue
        modified = (entry.findtext("{*}LastModified") or "").replace("Z", "+00:00")
        objects.append(
            {
                "path": name,
                "e_tag": entry.findtext("{*}ETag"),
                "version": None,
                "size": int(entry.findtext("{*}Size") or 0),
                "last_modified": datetime.fromisoformat(modified),
            }
        )
    has_more = root.findtext("{*}IsTruncated") == "true" or bool(root.findtext("{*}NextContinuationToken"))
    return S3Page(objects, left_out, last_name if has_more else None)
