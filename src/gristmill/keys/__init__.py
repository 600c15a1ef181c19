"""Who comes in: organisations, their keys and sessions, what they asked for, and what was asked twice."""

from gristmill.keys import audit, once
from gristmill.keys.key import ROLES, Key, KeyId, NewKey, Organisation, Role, is_key, new_secret, prefix_of
from gristmill.keys.store import (
    change,
    delete,
    end_session,
    find,
    find_all,
    find_by_secret,
    find_by_session,
    find_organisation,
    insert,
    is_protected,
    list_organisations,
    make_organisation,
    open_session,
)

__all__ = [
    "ROLES",
    "Key",
    "KeyId",
    "NewKey",
    "Organisation",
    "Role",
    "audit",
    "change",
    "delete",
    "end_session",
    "find",
    "find_all",
    "find_by_secret",
    "find_by_session",
    "find_organisation",
    "insert",
    "is_key",
    "is_protected",
    "list_organisations",
    "make_organisation",
    "new_secret",
    "once",
    "open_session",
    "prefix_of",
]
