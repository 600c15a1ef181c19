"""Access lists: an item is hidden unless an entry of its list allows it.

    the item's own list       applies to it, and to all below it that have no list of their own
    else the base's list      empty by default: only admins see such items

    entry                     allows
    org:*                     every member of the organisation
    team:{id}, group:{id}     its members
    tool_group:{id}           members of a group of a tool that a connector follows
    user:{id}                 that user
    user_email:{address}      the user of that address, in any case

A key, a token or a header may name teams and groups, but never tool groups: these follow from the viewer's address alone.

Lists belong to bases and items, never to chunks: the query that reads joins them. So a revoked permission takes effect with the
next query, and no vector is rewritten for it. A viewer without principals sees nothing.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gristmill.errors import FieldError, Invalid
from gristmill.identity.organisation import OrgId
from gristmill.identity.users import ActiveUser

EVERYBODY = "org:*"
MAX_ENTRIES = 1000
# Neither spaces, nor control characters, nor halves of surrogate pairs: PostgreSQL can't store all of these.
_LETTER = r"[^\s\x00-\x1f\x7f-\x9f\ud800-\udfff]"
_ENTRY = re.compile(
    rf"org:\*|(?:team|group|user):{_LETTER}{{1,200}}|tool_group:[0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}"
    rf"|user_email:(?:(?!@){_LETTER}){{1,100}}@(?:(?!@){_LETTER}){{1,200}}"
)


@dataclass(frozen=True)
class Viewer:
    """A reader: the access list entries that match them, None for an admin, who sees everything; and their organisation,
    None for Gristmill itself, which reads across organisations."""

    entries: frozenset[str] | None
    org: OrgId | None = None

    @property
    def is_admin(self) -> bool:
        """Whether access lists do not apply."""
        return self.entries is None

    @property
    def principals(self) -> list[str] | None:
        """The entries as a parameter of statements."""
        return None if self.entries is None else sorted(self.entries)

    def sees(self, acl: Iterable[str]) -> bool:
        """Whether an access list allows this viewer."""
        return self.entries is None or not self.entries.isdisjoint(acl)


ADMIN = Viewer(None)


def member(
    email: str | None = None,
    teams: Iterable[str] = (),
    groups: Iterable[str] = (),
    org: OrgId | None = None,
    tool_groups: Iterable[str] = (),
) -> Viewer:
    """The viewer of a member of the organisation; `tool_groups` are the ids of those that contain the address."""
    principals = [f"team:{team}" for team in teams] + [f"group:{group}" for group in groups]
    if email is not None:
        principals.append(f"user_email:{email}")
    return Viewer(frozenset((EVERYBODY, *parse_acl(principals), *_tool_group_entries(tool_groups))), org)


def viewer_of_user(user: ActiveUser, also: Iterable[str] = ()) -> Viewer:
    """The viewer of a user: their id, their address and every group that contains them, however many; also further entries."""
    if not user.active:
        return Viewer(frozenset(), user.org_id)
    groups = (f"group:{group}" for group in user.groups)
    own = (f"user:{user.id}", f"user_email:{user.email}", *groups, *_tool_group_entries(user.tool_groups))
    return Viewer(frozenset((EVERYBODY, *own, *also)), user.org_id)


def _tool_group_entries(ids: Iterable[str]) -> Iterable[str]:
    return (f"tool_group:{group}" for group in ids)


def parse_acl(acl: Sequence[str], field: str = "acl") -> list[str]:
    """The entries in canonical spelling, without duplicates, in order; `Invalid` when one is malformed."""
    entries: dict[str, None] = {}
    for index, entry in enumerate(acl):
        if _ENTRY.fullmatch(entry) is None:
            raise Invalid(
                f"{entry[:100]!r} is not an entry of an access list. "
                "Use org:*, team:ID, group:ID, tool_group:ID, user:ID or user_email:ADDRESS.",
                code="bad_acl_entry",
                fields=[FieldError(f"{field}.{index}", "is not an entry of an access list")],
            )
        entries[entry.lower() if entry.startswith("user_email:") else entry] = None
    if len(entries) > MAX_ENTRIES:
        raise Invalid(
            f"An access list can have at most {MAX_ENTRIES} entries. Use groups instead of single users.",
            code="bad_acl_entry",
        )
    return list(entries)
