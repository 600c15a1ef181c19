"""What a sign-in at the OpenID provider makes of its claims: a user, their groups and their role, in one transaction.

    the subject is known            that user
    else the address is verified    the user of that address, who is that subject from now on; or a new user
    else                            refused: an address decides what a person may see, so it must be theirs

Memberships that come from the claim are those of the claim, from this sign-in on; those that an admin or SCIM made stay. Names and
addresses of users of SCIM and of local accounts are not changed.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from gristmill.db import Tx
from gristmill.errors import Conflict
from gristmill.identity import groups, users
from gristmill.identity.groups import Group, GroupId
from gristmill.identity.key import ROLES
from gristmill.identity.open_id import SignInFailed
from gristmill.identity.organisation import OrgId
from gristmill.identity.users import ActiveUser, User, UserFields, UserRole

log = logging.getLogger(__name__)
_MAX_GROUPS = 1_000
_MAX_LENGTH = 200


@dataclass(frozen=True)
class ClaimRules:
    """What the settings say about claims."""

    issuer: str
    groups_claim: str
    groups: Mapping[str, str]
    roles: Mapping[str, UserRole]
    default_role: UserRole
    trust_email: bool


async def provision(tx: Tx, org: OrgId, claims: Mapping[str, Any], rules: ClaimRules) -> ActiveUser:
    """The user of these claims, created or changed as they say. Raises `SignInFailed`."""
    user = await _find_or_create(tx, org, claims, rules)
    if not user.active:
        raise SignInFailed("user_inactive", f"user {user.id} is not active")
    claimed = _groups_of_claim(claims, rules.groups_claim)
    await _update(tx, user, claims, claimed, rules)
    if claimed is not None:
        ids = [group for value in claimed if (group := await _group_id(tx, org, value, rules)) is not None]
        await groups.replace_groups_of_user(tx, user.id, ids, "oidc")
    active = await users.find_active_user(tx, user.id)
    if active is None:
        raise SignInFailed("user_inactive", f"user {user.id} is not active")
    return active


async def _find_or_create(tx: Tx, org: OrgId, claims: Mapping[str, Any], rules: ClaimRules) -> User:
    subject = f"{rules.issuer} {claims['sub']}"
    user = await users.find_user_by(tx, org, "subject", subject)
    if user is not None:
        return user
    email = _email_of_claims(claims, rules)
    if email is None:
        raise SignInFailed("email_not_verified", "the claims have no verified address")
    user = await users.find_user_by(tx, org, "email", email)
    if user is not None:
        if not await users.link_subject(tx, user.id, subject):
            raise SignInFailed("open_id_failed", f"user {user.id} has another subject at the provider")
        return user
    fields = UserFields(email, _name(claims) or email.partition("@")[0], rules.default_role, source="oidc")
    try:
        return await users.insert_user(tx, org, fields, subject=subject)
    except Conflict:
        raise SignInFailed(
            "open_id_failed", "a user with this name exists, or was created just now"
        ) from None


async def _update(
    tx: Tx, user: User, claims: Mapping[str, Any], claimed: Sequence[str] | None, rules: ClaimRules
) -> None:
    """Take over the name and the address of a user whom only this provider manages, and the role that groups give."""
    fields = users.fields_of(user)
    if user.source == "oidc":
        email = _email_of_claims(claims, rules) or user.email
        owner = await users.find_user_by(tx, user.org_id, "email", email)
        if owner is None or owner.id == user.id:
            is_name = user.user_name.lower() == user.email
            fields = replace(fields, email=email, user_name=email if is_name else user.user_name)
        fields = replace(fields, name=_name(claims) or user.name)
    if rules.roles and claimed is not None and user.source != "local":
        matching = [rules.roles[value] for value in claimed if value in rules.roles]
        fields = replace(fields, role=max(matching, key=ROLES.index, default=rules.default_role))
    if fields != users.fields_of(user):
        await users.change_user(tx, user.org_id, user.id, fields)


async def _group_id(tx: Tx, org: OrgId, value: str, rules: ClaimRules) -> GroupId | None:
    """The group of a value of the claim, created if needed; None for one that is not mapped, or is a local group's name."""
    if rules.groups:
        name = rules.groups.get(value)
        if name is None:
            return None
        return (await _ensure_group(tx, org, name)).id
    group = await groups.find_group_by(tx, org, external_id=value) or await groups.find_group_by(
        tx, org, name=value
    )
    group = group or await _ensure_group(tx, org, value)
    if group.source == "local":
        # Whoever names groups at the provider must not get into local ones by their names.
        log.warning("a group of the claim has the name of a local group", extra={"group": group.name})
        return None
    return group.id


async def _ensure_group(tx: Tx, org: OrgId, name: str) -> Group:
    """The group of this name, created if it does not exist."""
    group = await groups.find_group_by(tx, org, name=name)
    if group is not None:
        return group
    try:
        return await groups.insert_group(tx, org, name, source="oidc")
    except Conflict:  # another sign-in created it at the same moment
        group = await groups.find_group_by(tx, org, name=name)
        if group is None:
            raise SignInFailed("open_id_failed", "a group of the claim can't be created") from None
        return group


def _groups_of_claim(claims: Mapping[str, Any], claim: str) -> list[str] | None:
    """The values of the group claim; None if the provider left them out because there are too many."""
    names = claims.get("_claim_names")
    if claims.get("hasgroups") or (isinstance(names, dict) and claim in cast(dict[str, Any], names)):
        log.warning("the provider sent no groups because there are too many: provision them by SCIM")
        return None
    value = claims.get(claim, [])
    values: list[Any] = cast(list[Any], value) if isinstance(value, list) else [value]
    texts = [text for entry in values if isinstance(entry, str) and (text := entry.strip().lstrip("/"))]
    return [text for text in dict.fromkeys(texts) if text.isprintable() and len(text) <= _MAX_LENGTH][
        :_MAX_GROUPS
    ]


def _email_of_claims(claims: Mapping[str, Any], rules: ClaimRules) -> str | None:
    email = claims.get("email")
    if not isinstance(email, str) or email.count("@") != 1 or not _is_address(email):
        return None
    is_verified = claims.get("email_verified")
    return email.lower() if rules.trust_email or is_verified is True or is_verified == "true" else None


def _is_address(email: str) -> bool:
    name, _, domain = email.partition("@")
    return bool(name and domain) and len(email) <= _MAX_LENGTH and email.isprintable() and " " not in email


def _name(claims: Mapping[str, Any]) -> str | None:
    name = claims.get("name") or claims.get("preferred_username")
    return name.strip()[:_MAX_LENGTH] or None if isinstance(name, str) and name.isprintable() else None
