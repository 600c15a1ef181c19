"""Numbers and items of chunks in runs, against one entry per chunk."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gristmill.search.runs import ItemRuns, NumberRuns
from gristmill.search.snapshot import SegmentChunks, Snapshot
from gristmill.search.store import SegmentRow

numbers = st.sets(st.integers(min_value=1, max_value=60), max_size=40).map(sorted).flatmap(st.permutations)
keys = st.lists(st.integers(min_value=-3, max_value=6), max_size=40)


@given(st.one_of(numbers, st.just(list(range(7, 40)))), st.lists(st.integers(min_value=0, max_value=70)))
def test_runs_of_numbers_hold_each_number_and_no_other(values: list[int], sought: list[int]) -> None:
    runs = NumberRuns.from_numbers(np.array(values, np.int64))
    assert runs.at(np.arange(len(values))).tolist() == values
    ordinals = runs.find(np.array(sought, np.int64)).tolist()
    assert ordinals == [values.index(number) for number in sought if number in values]


@given(keys, st.lists(st.integers(min_value=-4, max_value=8), min_size=1, unique=True))
def test_runs_of_items_hold_the_chunks_of_each_item(values: list[int], sought: list[int]) -> None:
    """Also where the chunks of an item are not side by side."""
    runs = ItemRuns.from_keys(np.array(values, np.int64))
    assert runs.at(np.arange(len(values))).tolist() == values
    key_positions, ordinals = runs.find(np.array(sought, np.int64))
    assert list(zip(key_positions.tolist(), ordinals.tolist(), strict=True)) == [
        (position, ordinal)
        for position, key in enumerate(sought)
        for ordinal, value in enumerate(values)
        if value == key
    ]
    assert runs.mask(np.array(sorted(sought), np.int64)).tolist() == [value in sought for value in values]


@given(st.lists(keys.filter(bool), min_size=1, max_size=4), st.data())
def test_a_snapshot_finds_chunks_in_all_its_segments(parts: list[list[int]], data: st.DataObject) -> None:
    items = [key for part in parts for key in part]
    nos = data.draw(st.permutations(range(100, 100 + len(items))))
    snapshot = _snapshot(parts, nos)
    ordinals = np.array(data.draw(st.lists(st.integers(min_value=0, max_value=len(items) - 1))), np.int64)
    assert snapshot.nos_at(ordinals).tolist() == [nos[ordinal] for ordinal in ordinals]
    assert snapshot.items_at(ordinals).tolist() == [items[ordinal] for ordinal in ordinals]
    assert snapshot.ordinals_of([*nos, 1]) == {no: ordinal for ordinal, no in enumerate(nos)}
    sought = np.array([2, 99, -1], np.int64)
    assert snapshot.mask_of_items(sought).tolist() == [key in (2, 99, -1) for key in items]


def _snapshot(parts: list[list[int]], nos: list[int]) -> Snapshot:
    rows: list[SegmentRow] = []
    segments: list[SegmentChunks] = []
    start = 0
    for part in parts:
        end = start + len(part)
        rows.append(SegmentRow(len(rows), 1, len(part), []))
        segments.append(
            SegmentChunks(
                NumberRuns.from_numbers(np.array(nos[start:end], np.int64)),
                ItemRuns.from_keys(np.array(part, np.int64)),
                np.ones(len(part), np.uint16),
                1,
            )
        )
        start = end
    return Snapshot(rows, segments)
