"""bench/chaos: a seed plans the same faults again, and the comparison notices what is wrong."""

import random
from itertools import islice
from pathlib import Path
from typing import Any

import httpx
import pytest

from bench.chaos.checks import compare_documents
from bench.chaos.outside import Outside, TextCounter
from bench.chaos.processes import FAULT_WEIGHTS, plan_faults
from bench.chaos.workload import Api, Document, Workload
from tests.sources.site import Site


def test_a_seed_plans_the_same_faults_again() -> None:
    first, again, other = (list(islice(plan_faults(random.Random(seed)), 1000)) for seed in (7, 7, 8))
    assert first == again != other
    assert {(fault.action, fault.target) for fault in first} == set(FAULT_WEIGHTS)


ROW = ("base", "item", "note", None, "completed", "", ["grain qbox qcox"])


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ([ROW], None),
        ([], "lost"),
        ([ROW, ("base", "other", *ROW[2:])], "doubled"),
        ([(*ROW[:6], ["grain qbox qdox"])], "came back"),
        ([(*ROW[:6], ["grain qbox"])], "lost"),
        ([("base", "item", "note", None, "failed", "reader_crashed", ROW[6])], "failed"),
    ],
)
def test_documents_that_are_lost_doubled_old_or_failed_are_noticed(
    rows: list[tuple[Any, ...]], problem: str | None
) -> None:
    api = Api(httpx.AsyncClient(), random.Random(1))
    workload = Workload(api, Outside("", TextCounter(), Site(1), []), Path(), random.Random(1))
    workload.documents["note"] = Document("note", "base", "note", identity="qbox", revision="qcox")
    workload.dead_words.add("qdox")
    problems = compare_documents(rows, workload)
    assert (problems == []) if problem is None else any(text.startswith(problem) for text in problems)
