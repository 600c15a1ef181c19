"""What must be true once the faults are over and everything is quiet."""

import asyncio
import re
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import psycopg

from bench.chaos.outside import TextCounter
from bench.chaos.workload import ActionFailed, Api, Workload
from gristmill.db import local_server
from gristmill.ingest.embed import MIN_BATCH
from tests.connectors.fakes.tool import words_in

_WORD = re.compile(r"\bq[b-z]+ox\b")
_SHOWN = 5  # examples of each violation
_MAINTENANCE = ("tidy_base",)
_ENDS = ("DocumentIngestionCompleted", "ItemFailed")

LIVE_CHUNKS = """
    select i.base_id::text, i.id::text, i.type, i.source_key, i.status, coalesce(i.error_code, ''),
           coalesce(array_agg(c.text order by c.index) filter (where c.text is not null), '{}')
      from item i join base b on b.id = i.base_id left join chunk c on c.set_id = b.chunk_set and c.item_id = i.id and c.version = i.live_version
     group by i.id"""


async def wait_until_quiet(data_dir: Path, patience: float) -> list[str]:
    """Wait until no job is left and no item is active; what is still there after `patience` seconds."""
    deadline = time.monotonic() + patience
    while problems := await asyncio.to_thread(_find_unfinished_work, data_dir):
        if time.monotonic() > deadline:
            return problems
        await asyncio.sleep(1)
    return []


def _find_unfinished_work(data_dir: Path) -> list[str]:
    server = local_server.start(data_dir)
    try:
        with psycopg.connect(server.url) as connection:
            jobs = connection.execute(
                "select kind || ' is ' || state || ': ' || coalesce(errors::text, ''), count(*) from job"
                " where kind <> all (%s) group by 1", [list(_MAINTENANCE)],
            ).fetchall()  # fmt: skip
            items = connection.execute(
                "select type || ' is ' || status, count(*) from item where status not in ('completed', 'failed') group by 1"
            ).fetchall()
    except psycopg.Error as error:
        return [f"the database does not answer: {error}"]
    finally:
        server.close()
    return [f"stuck: {count} × {name}" for name, count in [*jobs, *items]]


async def find_problems(
    data_dir: Path, workload: Workload, api: Api, texts: TextCounter, faults: int
) -> list[str]:
    """Everything that is not as it must be."""
    rows, duplicates = await asyncio.to_thread(_read_index, data_dir)
    problems = [f"doubled: chunk {row}" for row in duplicates[:_SHOWN]]
    problems += compare_documents(rows, workload)
    problems += _compare_tools(rows, workload)
    problems += await _search(rows, workload, api)
    problems += await _compare_events(api)
    if texts.repeated > MIN_BATCH * faults:
        problems.append(f"paid twice: {texts.repeated} texts for {faults} faults")
    violations = (await api.read("/health/invariants"))["violations"]
    problems += [f"violation: {violation}" for violation in violations[:_SHOWN]]
    return problems + await _reconcile(api)


def _read_index(data_dir: Path) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    server = local_server.start(data_dir)
    try:
        with psycopg.connect(server.url) as connection:
            rows = connection.execute(LIVE_CHUNKS).fetchall()
            duplicates = connection.execute(
                "select item_id::text, version, index, count(*) from chunk group by set_id, 1, 2, 3 having count(*) > 1"
            ).fetchall()
    finally:
        server.close()
    return rows, duplicates


def compare_documents(rows: list[tuple[Any, ...]], workload: Workload) -> list[str]:
    """Each document once, with its last content; nothing of what was edited or deleted."""
    problems: list[str] = []
    items = defaultdict[str, list[str]](list)
    words_of_items: dict[str, Counter[str]] = {}
    for base, item, kind, key, status, error, chunks in rows:
        if status == "failed":
            problems.append(f"failed: {kind} {key} {item} with {error}")
        words = Counter(word for text in chunks for word in set(_WORD.findall(text)))
        words_of_items[item] = words
        for word in words:
            items[word].append(item)
        if dead := set(words) & workload.dead_words:
            problems.append(f"came back: {kind} {key} {item} of base {base} has {sorted(dead)[:_SHOWN]}")
    for document in workload.documents.values():
        places = items.get(document.identity, [])
        if len(places) != 1:
            problems.append(f"{'doubled' if places else 'lost'}: {document} is in {places}")
        elif words_of_items[places[0]][document.revision] < document.sections:
            problems.append(f"lost: {document} has {dict(words_of_items[places[0]])}")
    return problems


def _compare_tools(rows: list[tuple[Any, ...]], workload: Workload) -> list[str]:
    """Each base of a connector equals its tool."""
    problems: list[str] = []
    for source in workload.sources:
        indexed = Counter(key for base, _, kind, key, *_ in rows if base == source.base and kind == "record")
        texts = {
            key: words_in(" ".join(chunks))
            for base, _, kind, key, _, _, chunks in rows
            if base == source.base and kind == "record"
        }
        expected = {key: document.words for key, document in source.tool.expected_documents().items()}
        problems += [f"doubled: {source.tool.kind} {key}" for key, count in indexed.items() if count > 1]
        problems += [f"came back: {source.tool.kind} {key}" for key in texts.keys() - expected.keys()]
        for key, words in expected.items():
            if texts.get(key) != words:
                problems.append(f"lost: {source.tool.kind} {key} has {texts.get(key)} instead of {words}")
    return problems


async def _search(rows: list[tuple[Any, ...]], workload: Workload, api: Api) -> list[str]:
    """What exists answers a search by its last word; what was deleted or replaced answers none."""
    problems: list[str] = []
    for document in workload.documents.values():
        hits = await _hits(api, document.base, document.revision)
        if len(hits) != 1:
            problems.append(f"lost: a search for {document.revision} of {document.name} returns {hits}")
    for base in [*workload.bases, workload.folder_base]:
        words = sorted(workload.dead_words)
        for start in range(0, len(words), 40):
            hits = await _hits(api, base, " ".join(words[start : start + 40]))
            problems += [f"came back: a search for dead words returns {hit}" for hit in hits]
    return problems


async def _hits(api: Api, base: str, query: str) -> set[str]:
    body = {"query": query, "mode": "text", "limit": 20}
    status, answer = await api.change("POST", f"/knowledge-bases/{base}/search", json=body)
    if status != 200:
        raise ActionFailed(f"a search was refused: {status} {answer}")
    # A word that nothing contains is searched for in a similar spelling: such hits are no answer to this word.
    words = set(query.split())
    return {hit["itemId"] for hit in answer["hits"] if words & set(_WORD.findall(hit["text"]))}


async def _compare_events(api: Api) -> list[str]:
    """Events are in order, none of them twice; each version of an item ends once."""
    problems: list[str] = []
    ids: list[int] = []
    ends = Counter[tuple[str, int]]()
    while page := (await api.read("/events", after=str(ids[-1]) if ids else "0", limit=500))["items"]:
        ids += [int(event["id"]) for event in page]
        ends.update((event["subject"], event["data"]["version"]) for event in page if event["type"] in _ENDS)
    if ids != sorted(set(ids)):
        problems.append("doubled: events are out of order or listed twice")
    twice = [(subject, version, count) for (subject, version), count in ends.items() if count > 1]
    return problems + [
        f"doubled: {count} end events of {item} version {v}" for item, v, count in twice[:_SHOWN]
    ]


async def _reconcile(api: Api) -> list[str]:
    """What the reconciler would have had to repair: nothing."""
    _, job = await api.change("POST", "/health/reconciler")
    for _ in range(120):
        result = await api.read("/health/reconciler")
        if result["jobId"] == job["jobId"]:
            return [f"damage: {count} {name}" for name, count in result["damage"].items() if count]
        await asyncio.sleep(0.5)
    return ["stuck: the reconciler's pass did not end"]
