import pytest

from gristmill.catalog.access import ADMIN, member, parse_acl
from gristmill.errors import Invalid


def test_entries_have_one_spelling() -> None:
    assert parse_acl(["user_email:Ann@Example.org", "team:7", "team:7", "org:*"]) == [
        "user_email:ann@example.org",
        "team:7",
        "org:*",
    ]


def test_only_addresses_are_the_same_in_any_case() -> None:
    assert parse_acl(["team:Millers", "group:Ops", "user_email:ANN@example.org"]) == [
        "team:Millers",
        "group:Ops",
        "user_email:ann@example.org",
    ]


def test_a_list_has_at_most_a_thousand_entries() -> None:
    assert len(parse_acl([f"team:{number}" for number in range(1000)])) == 1000
    with pytest.raises(Invalid, match="at most 1000"):
        parse_acl([f"team:{number}" for number in range(1001)])


def test_statements_get_the_principals_of_a_member_and_none_for_an_admin() -> None:
    """S2-28: without principals every row is visible, so that only an admin may have none."""
    ann = member("Ann@example.org", ["7"], ["ops"])
    assert ann.principals == ["group:ops", "org:*", "team:7", "user_email:ann@example.org"]
    assert not ann.is_admin
    assert ADMIN.principals is None
    assert ADMIN.is_admin


@pytest.mark.parametrize(
    "entry", ["", "org:", "org:mine", "team:", "user_email:ann", "user:a b", "person:ann", "group:a b", "*"]
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
