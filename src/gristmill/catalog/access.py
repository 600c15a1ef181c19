"""Who may see what: denied unless an entry allows it.

    an item's own list        holds for it and for all below it that has none of its own
    else the base's list      none at all by default: only admins see such items

    entry                     allows
    org:*                     every member of the organisation
    team:{id}, group:{id}     who is in it
    user_email:{address}      the one of that address, whatever its case

Lists stand on bases and items, never on chunks: the query that reads joins them, so that a permission that was taken
away is gone from the next query, and no vector is written for it. A viewer without entries sees nothing.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gristmill.errors import FieldError, Invalid
from gristmill.identity.organisation import OrgId

EVERYBODY = "org:*"
MAX_ENTRIES = 1000
_ENTRY = re.compile(r"org:\*|(?:team|group):\S{1,200}|user_email:[^\s@]{1,100}@[^\s@]{1,200}")


@dataclass(frozen=True)
class Viewer:
    """Whose eyes: the entries that name them, None for an admin, who sees all; of which organisation, None for
    Gristmill itself, which is of none."""

    entries: frozenset[str] | None
    org: OrgId | None = None

    @property
    def is_admin(self) -> bool:
        """Whether no list keeps anything from these eyes."""
        return self.entries is None

    @property
    def principals(self) -> list[str] | None:
        """As statements take it."""
        return None if self.entries is None else sorted(self.entries)

    def sees(self, acl: Iterable[str]) -> bool:
        """Whether a list lets these eyes through."""
        return self.entries is None or not self.entries.isdisjoint(acl)


ADMIN = Viewer(None)


def member(
    email: str | None = None,
    teams: Iterable[str] = (),
    groups: Iterable[str] = (),
    org: OrgId | None = None,
) -> Viewer:
    """Somebody of the organisation."""
    principals = [f"team:{team}" for team in teams] + [f"group:{group}" for group in groups]
    if email is not None:
        principals.append(f"user_email:{email}")
    return Viewer(frozenset((EVERYBODY, *parse_acl(principals))), org)


def parse_acl(acl: Sequence[str], field: str = "acl") -> list[str]:
    """The entries in their one spelling, each once, in order; `Invalid` when one is none."""
    entries: dict[str, None] = {}
    for index, entry in enumerate(acl):
        if _ENTRY.fullmatch(entry) is None:
            raise Invalid(
                f"{entry[:100]!r} is no entry of an access list; take org:*, team:ID, group:ID or user_email:ADDRESS.",
                code="bad_acl_entry",
                fields=[FieldError(f"{field}.{index}", "is no entry of an access list")],
            )
        entries[entry.lower() if entry.startswith("user_email:") else entry] = None
    if len(entries) > MAX_ENTRIES:
        raise Invalid(f"An access list has at most {MAX_ENTRIES} entries.", code="bad_acl_entry")
    return list(entries)
