from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from gristmill.search.fuse import Candidate, LegResults, fuse


def hit(no: int, score: float) -> Candidate:
    return Candidate(UUID(int=no), no, score)


candidates = st.lists(
    st.builds(hit, st.integers(0, 30), st.integers(-100, 100).map(lambda n: n / 100)),
    unique_by=lambda hit: hit.no,
    max_size=20,
).map(lambda hits: sorted(hits, key=lambda hit: -hit.score))


@given(candidates, candidates, st.floats(0, 1))
def test_fusion_gives_the_union_in_falling_order(
    vector: list[Candidate], text: list[Candidate], weight: float
) -> None:
    results = fuse([LegResults(vector, text, weight)])
    assert {hit.no for hit in results} == {hit.no for hit in vector} | {hit.no for hit in text}
    scores = [hit.score for hit in results]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)


@given(candidates)
def test_one_leg_alone_keeps_its_order(vector: list[Candidate]) -> None:
    results = fuse([LegResults(vector, [], 1.0)])
    scores = {hit.no: hit.score for hit in vector}
    ranked_scores = [scores[hit.no] for hit in results]
    assert ranked_scores == sorted(ranked_scores, reverse=True)
    ranks = [hit.vector_rank for hit in results if hit.vector_rank is not None]
    assert sorted(ranks) == list(range(1, len(vector) + 1))


def test_what_both_legs_put_first_is_first() -> None:
    results = fuse([LegResults([hit(1, 0.9), hit(2, 0.8)], [hit(1, 5.0), hit(2, 1.0)])])
    assert results[0].no == 1


def test_the_score_is_the_weighted_sum_of_both_and_nothing_where_a_search_found_nothing() -> None:
    """Each list is scaled to 0.05..1; chunk 2 is only in the first list, chunk 4 only in the second."""
    legs = LegResults([hit(1, 0.9), hit(2, 0.5), hit(3, 0.1)], [hit(3, 8.0), hit(4, 2.0)], 0.6)
    scores = {result.no: round(result.score, 6) for result in fuse([legs])}
    assert scores == {
        1: 0.6,
        3: round(0.6 * 0.05 + 0.4, 6),
        2: round(0.6 * 0.525, 6),
        4: round(0.4 * 0.05, 6),
    }
    by_no = {result.no: result for result in fuse([legs])}
    assert (by_no[2].text_rank, by_no[2].text_score, by_no[4].vector_rank) == (None, None, None)
    assert (by_no[3].vector_rank, by_no[3].text_rank, by_no[3].vector_score) == (3, 1, 0.1)


def test_equal_scores_are_ordered_by_number() -> None:
    assert [result.no for result in fuse([LegResults([hit(9, 0.5), hit(4, 0.5)], [])])] == [4, 9]


def test_words_of_two_bases_are_compared_and_vectors_only_within_one_space() -> None:
    weak = LegResults([hit(1, 0.2)], [hit(1, 1.0)], 0.5, space="a")
    strong = LegResults([hit(2, 0.9)], [hit(2, 9.0)], 0.5, space="b")
    by_no = {hit.no: hit for hit in fuse([weak, strong])}
    assert by_no[2].score > by_no[1].score
    assert by_no[1].score > 0.5, "a similarity of another space takes nothing from the best of this one"
    same = {
        hit.no: hit
        for hit in fuse([LegResults(weak.vector, [], 1.0, "a"), LegResults(strong.vector, [], 1.0, "a")])
    }
    assert same[2].score == 1.0
    assert same[1].score < 0.1
