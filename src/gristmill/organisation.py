"""Organisations: whose everything is. What is kept by its hash is kept for each of them by itself.

Where equal bytes of two organisations were one row, the receipt of a deletion would tell one of them that the other has
the same. So a hash that rows are known by is drawn together with the organisation. The local one's is the plain hash.
"""

import hashlib
from typing import NewType
from uuid import UUID

OrgId = NewType("OrgId", UUID)

# The organisation of callers without a key; the migration that made organisations made it.
LOCAL_ORG = OrgId(UUID("00000000-0000-7000-8000-000000000001"))


def scoped_digest(org: OrgId, digest: bytes) -> bytes:
    """The hash by which `org` knows what has this `digest`; no other organisation has the same."""
    return digest if org == LOCAL_ORG else hashlib.sha256(org.bytes + digest).digest()
