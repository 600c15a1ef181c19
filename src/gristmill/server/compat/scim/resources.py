"""Users and groups as SCIM shows them, and the fields that a request gives them."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast
from uuid import UUID

from gristmill.catalog import access
from gristmill.errors import Invalid
from gristmill.identity import Group, User, UserFields
from gristmill.identity.groups import GroupMember
from gristmill.server.compat.scim.patch import Change, to_bool

USER = "urn:ietf:params:scim:schemas:core:2.0:User"
GROUP = "urn:ietf:params:scim:schemas:core:2.0:Group"
LIST = "urn:ietf:params:scim:api:messages:2.0:ListResponse"
_MAX_TEXT = 300
_FILTER = re.compile(r'\s*([\w.:\[\]" ]+?)\s+eq\s+"((?:[^"\\]|\\.)*)"\s*', re.IGNORECASE)


def user_resource(user: User, groups: Iterable[Group], root: str) -> dict[str, Any]:
    """A user as SCIM shows it."""
    first_name, _, family = user.name.partition(" ")
    return {
        "schemas": [USER],
        "id": str(user.id),
        **({} if user.external_id is None else {"externalId": user.external_id}),
        "userName": user.user_name,
        "displayName": user.name,
        "name": {"formatted": user.name, "givenName": first_name, "familyName": family},
        "emails": [{"value": user.email, "type": "work", "primary": True}],
        "active": user.active,
        "groups": [
            {"value": str(group.id), "display": group.name, "$ref": f"{root}/Groups/{group.id}"}
            for group in groups
        ],
        "meta": _meta("User", user, f"{root}/Users/{user.id}"),
    }


def group_resource(group: Group, members: Sequence[GroupMember] | None, root: str) -> dict[str, Any]:
    """A group as SCIM shows it; without `members` if they are not wanted."""
    shown: dict[str, Any] = (
        {} if members is None else {"members": [_member(member, root) for member in members]}
    )
    return {
        "schemas": [GROUP],
        "id": str(group.id),
        **({} if group.external_id is None else {"externalId": group.external_id}),
        "displayName": group.name,
        **shown,
        "meta": _meta("Group", group, f"{root}/Groups/{group.id}"),
    }


def list_response(resources: Sequence[Mapping[str, Any]], total: int, start: int) -> dict[str, Any]:
    """One page of a list."""
    return {
        "schemas": [LIST],
        "totalResults": total,
        "startIndex": start,
        "itemsPerPage": len(resources),
        "Resources": list(resources),
    }


def parse_filter(text: str) -> tuple[str, str]:
    """The attribute, in lower case, and the value of a filter `attribute eq "value"`."""
    match = _FILTER.fullmatch(text)
    if match is None:
        raise Invalid(
            'This filter is not supported. Use one like userName eq "ann@example.org".',
            code="bad_scim_filter",
        )
    attribute = re.sub(r"\[[^\]]*\]", "", match[1]).rpartition(":")[2].lower()
    return attribute, re.sub(r"\\(.)", r"\1", match[2])


def new_user_fields(body: Mapping[str, Any], fields: UserFields) -> UserFields:
    """The fields of a user after a POST or PUT; what the request leaves out stays as in `fields`."""
    user_name = text_of(body.get("userName"), "userName")
    if user_name is None:
        raise _bad("userName is missing.")
    email = _email(body.get("emails")) or (user_name if "@" in user_name else fields.email)
    return _require_address(
        replace(
            fields,
            user_name=user_name,
            email=email,
            name=_display_name(body) or fields.name or user_name,
            active=fields.active if body.get("active") is None else to_bool(body["active"]),
            external_id=text_of(body.get("externalId"), "externalId") or fields.external_id,
            source="scim",
        )
    )


def user_fields_after(changes: Sequence[Change], fields: UserFields) -> UserFields:
    """The fields of a user after a PATCH."""
    first_name, _, family = fields.name.partition(" ")
    old_user_name = fields.user_name or fields.email
    for change in changes:
        value = None if change.operation == "remove" else change.value
        match change.attribute:
            case "active" if value is not None:
                fields = replace(fields, active=to_bool(value))
            case "username" if value is not None:
                fields = replace(fields, user_name=text_of(value, "userName"))
            case "externalid":
                fields = replace(fields, external_id=text_of(value, "externalId"))
            case "displayname" | "name.formatted" if value is not None:
                fields = replace(fields, name=text_of(value, "displayName") or fields.name)
            case "name.givenname" if value is not None:
                first_name = text_of(value, "givenName") or ""
                fields = replace(fields, name=f"{first_name} {family}".strip())
            case "name.familyname" if value is not None:
                family = text_of(value, "familyName") or ""
                fields = replace(fields, name=f"{first_name} {family}".strip())
            case "emails" if value is not None:
                fields = replace(fields, email=_email(value) or fields.email)
            case _:
                pass
    if old_user_name.lower() == fields.email and fields.user_name and "@" in fields.user_name:
        fields = replace(fields, email=fields.user_name)  # the name was the address, and still is
    return _require_address(replace(fields, source="scim"))


def member_ids(value: Any) -> list[UUID]:
    """The ids of members that a request names; those that are no ids can't be members."""
    entries: list[Any] = cast(list[Any], value) if isinstance(value, list) else [value]
    ids: list[UUID] = []
    for entry in entries:
        text = cast(dict[str, Any], entry).get("value") if isinstance(entry, dict) else entry
        try:
            ids.append(UUID(str(text)))
        except ValueError:
            raise _bad(f"{str(text)[:100]!r} is not the id of a user or group.") from None
    return ids


def text_of(value: Any, name: str) -> str | None:
    """A line of text, or None if it is null or empty."""
    if value is None:
        return None
    if not isinstance(value, str) or len(value) > _MAX_TEXT or not value.isprintable():
        raise _bad(f"{name} must be one line of text of at most {_MAX_TEXT} characters.")
    return value.strip() or None


def _display_name(body: Mapping[str, Any]) -> str | None:
    name = body.get("name")
    parts = cast(dict[str, Any], name) if isinstance(name, dict) else {}
    joined = " ".join(filter(None, (text_of(parts.get(part), part) for part in ("givenName", "familyName"))))
    return (
        text_of(body.get("displayName"), "displayName")
        or text_of(parts.get("formatted"), "formatted")
        or joined
    )


def _email(value: Any) -> str | None:
    """The primary address of a list, or the first."""
    if isinstance(value, str):
        return text_of(value, "emails")
    entries = [
        cast(dict[str, Any], entry)
        for entry in (cast(list[Any], value) if isinstance(value, list) else [])
        if isinstance(entry, dict)
    ]
    primary = [entry for entry in entries if str(entry.get("primary", "")).lower() == "true"]
    return next((text_of(entry.get("value"), "emails") for entry in [*primary, *entries]), None)


def _require_address(fields: UserFields) -> UserFields:
    """Raise unless access lists can name the address."""
    if not fields.email:
        raise _bad("The user has no email address. Map one to emails, or use an address as userName.")
    access.member(fields.email)
    return replace(fields, email=fields.email.lower(), name=fields.name[:200])


def _member(member: GroupMember, root: str) -> dict[str, Any]:
    kind = "User" if member.type == "user" else "Group"
    return {
        "value": str(member.id),
        "display": member.name,
        "type": kind,
        "$ref": f"{root}/{kind}s/{member.id}",
    }


def _meta(kind: str, row: User | Group, location: str) -> dict[str, Any]:
    return {
        "resourceType": kind,
        "created": f"{row.created_at:%Y-%m-%dT%H:%M:%SZ}",
        "lastModified": f"{row.updated_at:%Y-%m-%dT%H:%M:%SZ}",
        "location": location,
    }


def _bad(message: str) -> Invalid:
    return Invalid(message, code="bad_scim_request")
