import pytest

from gristmill.catalog.access import ADMIN, member, parse_acl
from gristmill.errors import Invalid


def test_entries_have_one_spelling() -> None:
    assert parse_acl(["user_email:Ann@Example.org", "team:7", "team:7", "org:*"]) == [
        "user_email:ann@example.org",
        "team:7",
        "org:*",
    ]


@pytest.mark.parametrize(
    "entry", ["", "org:", "org:mine", "team:", "user_email:ann", "user:ann", "group:a b", "*"]
)
def test_what_is_no_entry_is_refused(entry: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_acl([entry])
    assert refused.value.code == "bad_acl_entry"


def test_nobody_is_seen_by_an_empty_list_but_an_admin() -> None:
    """C18: denied by default."""
    assert not member("ann@example.org", ["7"]).sees([])
    assert ADMIN.sees([])


def test_a_member_is_seen_through_any_of_their_entries() -> None:
    """S2-28."""
    ann = member("Ann@example.org", ["7"], ["ops"])
    for entry in ("org:*", "team:7", "group:ops", "user_email:ann@example.org"):
        assert ann.sees([entry])
    for entry in ("team:8", "group:7", "user_email:bob@example.org"):
        assert not ann.sees([entry])
