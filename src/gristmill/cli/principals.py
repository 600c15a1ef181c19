"""Entries of access lists as people type them: an address, the name of a group, or the entry itself."""

from collections.abc import Sequence

from gristmill.cli.client_session import ClientSession, Refused

_KINDS = ("org", "user", "user_email", "group", "team", "tool_group")


def principal_entry(text: str) -> str:
    """The entry of an access list: an address is a person's, everything else a group's, unless it is an entry already."""
    if text.partition(":")[0] in _KINDS and ":" in text:
        return text
    return f"user_email:{text}" if "@" in text else f"group:{text}"


async def resolve_entries(session: ClientSession, principals: Sequence[str]) -> list[str]:
    """The entries of principals; groups are named by their ids where one has the name. A bare name that no group has is
    refused: it would let no one see anything."""
    entries: list[str] = []
    for text in principals:
        entry = principal_entry(text)
        kind, _, name = entry.partition(":")
        group = await _group_id(session, name) if kind == "group" else None
        if kind == "group" and group is None and entry != text:
            raise Refused(
                f"There is no group named {text!r}. `gristmill group list` lists them. A group that only your clients know is "
                f"group:{text}.",
                code="group_not_found",
            )
        entries.append(entry if group is None else f"group:{group}")
    return list(dict.fromkeys(entries))


async def _group_id(session: ClientSession, name: str) -> str | None:
    async for group in session.client.pages("/groups", q=name):
        if group["name"].casefold() == name.casefold():
            return group["id"]
    return None
