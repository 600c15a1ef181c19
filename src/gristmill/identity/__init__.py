"""Who makes requests: organisations, their keys and sessions, the audit log, and idempotency of repeated requests."""

from gristmill.identity import audit, idempotency
from gristmill.identity.key import (
    ROLES,
    ApiKey,
    KeyId,
    NewApiKey,
    Role,
    is_key_secret,
    new_secret,
    secret_prefix,
)
from gristmill.identity.organisation import LOCAL_ORG, Organisation, OrgId, scoped_digest
from gristmill.identity.store import (
    change_key,
    delete_key,
    end_session,
    ensure_organisation,
    find_key,
    find_key_by_secret,
    find_key_by_session,
    find_organisation,
    has_admin_key,
    insert_key,
    list_keys,
    list_organisations,
    open_session,
)

__all__ = [
    "LOCAL_ORG",
    "ROLES",
    "ApiKey",
    "KeyId",
    "NewApiKey",
    "OrgId",
    "Organisation",
    "Role",
    "audit",
    "change_key",
    "delete_key",
    "end_session",
    "ensure_organisation",
    "find_key",
    "find_key_by_secret",
    "find_key_by_session",
    "find_organisation",
    "has_admin_key",
    "idempotency",
    "insert_key",
    "is_key_secret",
    "list_keys",
    "list_organisations",
    "new_secret",
    "open_session",
    "scoped_digest",
    "secret_prefix",
]
