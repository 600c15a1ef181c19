from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from gristmill.search.fuse import Found, fuse

ids = st.integers(0, 30).map(lambda n: UUID(int=n))
found = st.lists(
    st.builds(Found, ids, st.integers(-100, 100).map(lambda n: n / 100)),
    unique_by=lambda hit: hit.id,
    max_size=20,
).map(lambda hits: sorted(hits, key=lambda hit: -hit.score))


@given(found, found, st.floats(0, 1))
def test_fusion_gives_the_union_in_falling_order(
    vector: list[Found], text: list[Found], weight: float
) -> None:
    fused = fuse(vector, text, weight)
    assert {hit.id for hit in fused} == {hit.id for hit in vector} | {hit.id for hit in text}
    scores = [hit.score for hit in fused]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)


@given(found)
def test_one_leg_alone_keeps_its_order(vector: list[Found]) -> None:
    ranks = [hit.vector_rank for hit in fuse(vector, [], 1.0)]
    scores = {hit.id: hit.score for hit in vector}
    fused = [scores[hit.id] for hit in fuse(vector, [], 1.0)]
    assert fused == sorted(fused, reverse=True)
    assert sorted(rank for rank in ranks if rank is not None) == list(range(1, len(vector) + 1))


def test_what_both_legs_put_first_is_first() -> None:
    both, other = UUID(int=1), UUID(int=2)
    vector = [Found(both, 0.9), Found(other, 0.8)]
    text = [Found(both, 5.0), Found(other, 1.0)]
    assert fuse(vector, text)[0].id == both
