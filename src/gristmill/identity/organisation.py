"""Organisations: everything belongs to one, and they share no rows.

If equal bytes of two organisations were one row, the receipt of a deletion would reveal to one that the other has the same
bytes. So the hash that identifies a row is computed from the digest and the organisation. The local organisation uses the
plain digest.
"""

import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import NewType
from uuid import UUID

OrgId = NewType("OrgId", UUID)

# The organisation of callers without a key; the schema creates it.
LOCAL_ORG = OrgId(UUID("00000000-0000-7000-8000-000000000001"))


@dataclass(frozen=True)
class Organisation:
    """A row of `organisation`."""

    id: OrgId
    name: str
    created_at: datetime


def scoped_digest(org: OrgId, digest: bytes) -> bytes:
    """The hash that identifies something of this digest within `org`; it differs in every other organisation."""
    return digest if org == LOCAL_ORG else hashlib.sha256(org.bytes + digest).digest()
