"""Who comes in: organisations, their keys and sessions, what they asked for, and what was asked twice."""

from gristmill.keys import audit, once
from gristmill.keys.key import ROLES, ApiKey, KeyId, NewApiKey, Organisation, Role, is_key_secret, new_secret, shown_prefix
from gristmill.keys.store import (
    change_key,
    delete_key,
    end_session,
    find_key,
    list_keys,
    find_key_by_secret,
    find_key_by_session,
    find_organisation,
    insert_key,
    has_admin_key,
    list_organisations,
    ensure_organisation,
    open_session,
)

__all__ = [
    "ROLES",
    "ApiKey",
    "KeyId",
    "NewApiKey",
    "Organisation",
    "Role",
    "audit",
    "change_key",
    "delete_key",
    "end_session",
    "find_key",
    "list_keys",
    "find_key_by_secret",
    "find_key_by_session",
    "find_organisation",
    "insert_key",
    "is_key_secret",
    "has_admin_key",
    "list_organisations",
    "ensure_organisation",
    "new_secret",
    "once",
    "open_session",
    "shown_prefix",
]
