"""Search quality: `uv run --group bench python -m bench.relevance DIR...`, each a corpus in BEIR's layout.

    corpus.jsonl, queries.jsonl, qrels.tsv or qrels/test.tsv

Every document becomes a note of a base, in a separate Gristmill, and every query that has judgements runs in the modes text,
vector and hybrid. With `--questions-of`, so do the questions of other corpora about the same documents, such as in another language. Prints nDCG@10 (a document ranks by its best chunk) and that of bm25s
in the same run: over the same titles and texts, with its English stemmer, with and without its stop words; for Chinese,
Japanese and Korean over characters and pairs of characters.
"""

import argparse
import asyncio
import csv
import json
import math
import re
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import httpx

from gristmill import app, catalog
from gristmill.search import Mode, SearchRequest, Target
from gristmill.search.lexer import is_mostly_cjk
from gristmill.settings import Settings

BATCH = 500
DEPTH = 50  # chunks requested, so that they contain ten documents
_PIECES = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+|[a-z0-9]+")


@dataclass(frozen=True)
class Corpus:
    """Documents with title and text, questions, and how well each document answers each question."""

    name: str
    documents: Mapping[str, tuple[str, str]]
    questions: Mapping[str, str]
    judgements: Mapping[str, Mapping[str, int]]


def load(folder: Path, max_questions: int) -> Corpus:
    """Read a corpus; of too many questions, every n-th."""
    judgements: dict[str, dict[str, int]] = defaultdict(dict)
    file = next(path for path in (folder / "qrels.tsv", folder / "qrels" / "test.tsv") if path.exists())
    with file.open(encoding="utf-8") as file:
        for row in csv.reader(file, delimiter="\t"):
            if row[-1].lstrip("-").isdigit() and int(row[-1]) > 0:
                judgements[row[0]][row[-2]] = int(row[-1])
    documents = {
        str(record["_id"]): (str(record.get("title") or ""), str(record["text"]))
        for record in _read_jsonl(folder / "corpus.jsonl")
    }
    questions = {str(record["_id"]): str(record["text"]) for record in _read_jsonl(folder / "queries.jsonl")}
    questions = {key: text for key, text in questions.items() if key in judgements}
    step = max(1, math.ceil(len(questions) / max_questions))
    return Corpus(folder.name, documents, dict(list(questions.items())[::step]), judgements)


def _read_jsonl(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def ndcg(ranked: Sequence[str], judgements: Mapping[str, int]) -> float:
    """nDCG@10 of a ranking."""
    gain_sum = sum(
        judgements.get(document, 0) / math.log2(rank + 1) for rank, document in enumerate(ranked[:10], 1)
    )
    best = sorted(judgements.values(), reverse=True)[:10]
    return gain_sum / sum(gain / math.log2(rank + 1) for rank, gain in enumerate(best, 1))


def score_bm25s(corpus: Corpus) -> dict[str, float]:
    """Score bm25s over the same corpus."""
    module, stemmer = (
        cast(Any, import_module("bm25s")),
        cast(Any, import_module("Stemmer")).Stemmer("english"),
    )
    texts = [f"{title} {text}" for title, text in corpus.documents.values()]
    if is_mostly_cjk(" ".join(texts[:50])):
        tokenizers = {"bm25s, characters and pairs": _tokenize_cjk}
    else:

        def words(stop: str | None) -> Any:
            def tokenize(texts: Sequence[str]) -> Any:
                return module.tokenize(list(texts), stopwords=stop, stemmer=stemmer, show_progress=False)

            return tokenize

        tokenizers = {"bm25s, stemmed": words(None), "bm25s, stemmed, stop words": words("en")}
    ids = list(corpus.documents)
    scores: dict[str, float] = {}
    for label, tokenize in tokenizers.items():
        index = module.BM25()
        index.index(tokenize(texts), show_progress=False)
        hits, _ = index.retrieve(
            tokenize(list(corpus.questions.values())), k=min(10, len(ids)), show_progress=False
        )
        ranked = [[ids[int(position)] for position in row] for row in cast(list[list[int]], hits.tolist())]
        scores[label] = statistics.fmean(
            ndcg(ranking, corpus.judgements[key])
            for key, ranking in zip(corpus.questions, ranked, strict=True)
        )
    return scores


def _tokenize_cjk(texts: Sequence[str]) -> list[list[str]]:
    result: list[list[str]] = []
    for text in texts:
        tokens: list[str] = []
        for piece in _PIECES.findall(text.lower()):
            is_ascii = piece.isascii()
            tokens += (
                [piece]
                if is_ascii
                else [*piece, *(piece[offset : offset + 2] for offset in range(len(piece) - 1))]
            )
        result.append(tokens)
    return result


async def index_corpus(
    http: httpx.AsyncClient, corpus: Corpus, embedder: str | None = None, folder: Path | None = None
) -> tuple[str, dict[str, str]]:
    """Index the documents in a new base; its id, and the document of each item. With a folder, what an earlier run has
    indexed and noted there is used again."""
    name = f"{corpus.name} {embedder or 'default'}"
    notes_file = None if folder is None else folder / f"{name}.json"
    if notes_file is not None and notes_file.exists():
        noted = json.loads(notes_file.read_text(encoding="utf-8"))
        return noted["base"], noted["items"]
    base, items = await _index_notes(http, corpus, name, embedder)
    if notes_file is not None:
        notes_file.write_text(json.dumps({"base": base, "items": items}), encoding="utf-8")
    return base, items


async def _index_notes(
    http: httpx.AsyncClient, corpus: Corpus, name: str, embedder: str | None
) -> tuple[str, dict[str, str]]:
    response = await http.post("/api/knowledge-bases", json={"name": name, "embedder": embedder})
    base = response.json()["id"]
    items: dict[str, str] = {}
    documents = [(key, title, text) for key, (title, text) in corpus.documents.items() if text.strip()]
    for start in range(0, len(documents), BATCH):
        batch = documents[start : start + BATCH]
        notes = [
            {"type": "note", "title": _printable_title(title or key), "content": text}
            for key, title, text in batch
        ]
        response = await http.post(f"/api/knowledge-bases/{base}/items", json={"items": notes})
        for created, (key, _, _) in zip(response.json()["created"], batch, strict=True):
            items[created["id"]] = key
    while True:
        counts = (await http.get(f"/api/knowledge-bases/{base}")).json()["itemCounts"]
        if sum(counts.values()) == counts.get("completed", 0) + counts.get("failed", 0):
            return base, items
        await asyncio.sleep(0.5)


def _printable_title(text: str) -> str:
    return "".join(character for character in text if character.isprintable()).strip()[:500]


async def measure_mode(
    mill: app.Gristmill, base_id: str, items: Mapping[str, str], corpus: Corpus, mode: Mode
) -> tuple[float, int, float]:
    """nDCG@10 of a mode, the number of empty answers, and the median search time in milliseconds."""
    async with mill.db.connection() as tx:
        base = next(
            candidate for candidate in await catalog.list_bases(tx, limit=100) if str(candidate.id) == base_id
        )
    embedder = mill.embedders.get(base.embedder) if mode != "text" else None
    scores: list[float] = []
    times: list[float] = []
    empty_answers = 0
    for key, text in corpus.questions.items():
        started = time.perf_counter()
        request = SearchRequest(text, limit=DEPTH, mode=mode)
        hits = await mill.searcher.search([Target(base, embedder)], request)
        times.append(1000 * (time.perf_counter() - started))
        empty_answers += not hits
        ranked = list(dict.fromkeys(items[str(hit.item_id)] for hit in hits))
        scores.append(ndcg(ranked, corpus.judgements[key]))
    return statistics.fmean(scores), empty_answers, statistics.median(times)


async def run(
    folders: Sequence[Path],
    max_questions: int,
    data_dir: Path,
    embedder: str | None,
    other_questions: Sequence[Path],
) -> None:
    settings = Settings(data_dir=data_dir, port=0)
    async with app.gristmill(settings, work=True) as mill:
        transport = httpx.ASGITransport(app=mill.api)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=600) as http:
            for folder in folders:
                corpus = load(folder, max_questions)
                print(f"{corpus.name}: {len(corpus.documents)} documents, {len(corpus.questions)} questions")
                for label, score in score_bm25s(corpus).items():
                    print(f"  {label:32} {score:.4f}")
                started = time.perf_counter()
                base, items = await index_corpus(http, corpus, embedder, data_dir.parent)
                print(f"  indexed in {time.perf_counter() - started:.0f} s", flush=True)
                for asked in (corpus, *(load(other, max_questions) for other in other_questions)):
                    print(f"  questions of {asked.name}")
                    for mode in ("text", "vector", "hybrid"):
                        score, empty, median_ms = await measure_mode(mill, base, items, asked, mode)
                        print(
                            f"  {mode:32} {score:.4f}   {empty} empty   median {median_ms:.1f} ms", flush=True
                        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--questions", type=int, default=1500, help="at most this many of a corpus")
    parser.add_argument("--embedder", help="by default the one of the settings")
    parser.add_argument(
        "--questions-of",
        type=Path,
        nargs="*",
        default=[],
        help="ask the questions of these corpora too; their judgements name the same documents",
    )
    parser.add_argument("--data-dir", type=Path, help="keep the indexed data here, and use what is there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gristmill-relevance-") as temporary:
        data_dir = (options.data_dir or Path(temporary)) / "data"
        data_dir.mkdir(parents=True, exist_ok=True)
        asyncio.run(run(options.folders, options.questions, data_dir, options.embedder, options.questions_of))


if __name__ == "__main__":
    main()
