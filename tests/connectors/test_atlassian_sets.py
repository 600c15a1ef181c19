"""Sets of accounts and groups behave like sets of people, and groups stay groups where they can."""

from hypothesis import given
from hypothesis import strategies as st

from gristmill.connectors.atlassian import EVERYBODY, UNKNOWN, AtlassianGroup, AtlassianUser, UserSet

MEMBERS = {"g": "abc", "h": "cd", "k": ""}
GROUPS = {
    key: AtlassianGroup(key, key, UserSet.from_users(AtlassianUser(each) for each in names))
    for key, names in MEMBERS.items()
}


def people_in(users: UserSet) -> set[str]:
    """Everyone whom a set contains, directly or by a group."""
    return {*users.accounts, *(each for key in users.groups for each in MEMBERS[key])}


@st.composite
def user_sets(draw: st.DrawFn) -> UserSet:
    """Some accounts and groups."""
    accounts = draw(st.sets(st.sampled_from("abcde")))
    groups = draw(st.sets(st.sampled_from("ghk")))
    users = UserSet.from_users(AtlassianUser(each) for each in accounts)
    return UserSet(users.accounts, groups={key: GROUPS[key] for key in groups})


@given(user_sets(), user_sets(), user_sets())
def test_unions_and_intersections_are_those_of_the_people(a: UserSet, b: UserSet, c: UserSet) -> None:
    assert people_in(a | b) == people_in(a) | people_in(b)
    assert people_in(a & b) == people_in(a) & people_in(b)
    assert people_in((a | b) & c) == (people_in(a) | people_in(b)) & people_in(c)
    assert set((a | b).groups) == {*a.groups, *b.groups}
    assert set((a & b).groups) == {*a.groups} & {*b.groups}
    for everybody in (a & EVERYBODY, EVERYBODY & a):
        assert (everybody.accounts, everybody.groups, everybody.everybody) == (a.accounts, a.groups, False)


def test_a_group_without_its_members_hides_what_it_is_intersected_with() -> None:
    """Beside others it shows nothing by itself; inside an intersection nobody knows who is left."""
    ann = UserSet.from_users([AtlassianUser("a", email="ann@example.org")])
    dark = UserSet(groups={"g": AtlassianGroup("g", "g", UNKNOWN)})
    beside = (ann | dark).audience("x")
    assert (beside.complete, beside.emails) == (True, {"ann@example.org"})
    assert [(group.id, group.complete) for group in beside.tool_groups] == [("g", False)]
    assert not (ann & dark).audience("x").complete
    assert (dark & dark).audience("x").complete  # both name it: it stays a group
    assert not ((ann | UNKNOWN) & EVERYBODY).audience("x").complete
