"""What scores mean: `uv run --group bench python -m bench.scores DIR... [--embedder NAME]`, each a corpus in BEIR's layout.

Indexes every corpus, and asks each of them

    right        its own questions
    paraphrases  questions about short notes in other words (`paraphrases.py`), in bases of their own
    off-topic    the questions of the other corpora, and of everyday life (`everyday_questions.py`)
    gibberish    letters, a mashed keyboard, words or Chinese characters by chance, questions with shuffled letters
    shuffled     Chinese questions with shuffled characters: their words can still be guessed
    word         a word of the corpus

With `--parts 30 200`, the same of bases of so many documents of each corpus: in a small base the nearest text is less near by
chance. Prints which share has a hit that fits, in the modes hybrid, text and vector. With `--evidence FILE`, writes what is known of the
hits, for `bench.score_fit`.
"""

import argparse
import asyncio
import json
import random
import re
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TextIO

import httpx

from bench import everyday_questions, paraphrases
from bench.relevance import Corpus, index_corpus, load
from gristmill import app, catalog
from gristmill.catalog import Base
from gristmill.search import Mode, SearchRequest, Target, relevance
from gristmill.search.lexer import is_mostly_cjk
from gristmill.search.relevance import Evidence
from gristmill.search.stop_words import stop_lexemes
from gristmill.settings import Settings

MODES: tuple[Mode, ...] = ("hybrid", "text", "vector")
_OFF_TOPIC = 40  # questions of each other corpus
_GIBBERISH = 15  # of each kind
_WORDS = 40
_KEYS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_HAN = re.compile("[\u4e00-\u9fff]")


@dataclass(frozen=True)
class Question:
    """A question, its kind, and the documents that answer it."""

    kind: str
    text: str
    documents: frozenset[str] = frozenset()


def note_corpora() -> list[Corpus]:
    """The short notes and the questions in other words, in English and Chinese: for the fit, and held back."""
    corpora: list[Corpus] = []
    for language, is_chinese in (("en", False), ("zh", True)):
        for name, pairs in (
            (f"notes-{language}-fit", paraphrases.pairs_for_fit(is_chinese=is_chinese)),
            (f"notes-{language}", paraphrases.held_back_pairs(is_chinese=is_chinese)),
        ):
            documents = {str(number): ("Note", note) for number, (note, _) in enumerate(pairs)}
            questions = {str(number): question for number, (_, question) in enumerate(pairs)}
            corpora.append(Corpus(name, documents, questions, {key: {key: 1} for key in documents}))
    return corpora


def part_of(corpus: Corpus, size: int) -> Corpus:
    """Some of a corpus: questions by chance with the documents that answer them, and other documents until there are enough."""
    chance = random.Random(f"{corpus.name} {size}")
    keys, documents, questions = list(corpus.questions), dict[str, tuple[str, str]](), dict[str, str]()
    for key in chance.sample(keys, len(keys)):
        answers = [document for document in corpus.judgements[key] if document in corpus.documents]
        if len(documents) + len(answers) <= size:
            documents |= {document: corpus.documents[document] for document in answers}
            questions[key] = corpus.questions[key]
    rest = [key for key in corpus.documents if key not in documents]
    for key in chance.sample(rest, max(0, min(len(rest), size - len(documents)))):
        documents[key] = corpus.documents[key]
    return Corpus(f"{corpus.name}, {size}", documents, questions, corpus.judgements)


def questions_for(corpus: Corpus, others: Sequence[Corpus], vocabulary: Sequence[str]) -> Iterator[Question]:
    """The questions to ask a corpus, the same ones every time."""
    chance = random.Random(corpus.name)
    is_chinese = _is_chinese(corpus)
    for key, text in corpus.questions.items():
        yield Question("right", text, frozenset(corpus.judgements[key]))
    for other in others:
        if _is_chinese(other) == is_chinese and other.name != corpus.name.split(",")[0]:
            texts = list(other.questions.values())
            for text in chance.sample(texts, min(_OFF_TOPIC, len(texts))):
                yield Question(f"off-topic, {other.name}", text)
    everyday = everyday_questions.CHINESE if is_chinese else everyday_questions.ENGLISH
    for number, text in enumerate(everyday):
        yield Question(
            "off-topic, for the fit" if number < len(everyday) // 2 else "off-topic, everyday", text
        )
    questions = {"".join(sorted(text)) for text in corpus.questions.values()}
    for text in _gibberish(chance, corpus, vocabulary):
        is_shuffled = is_chinese and "".join(sorted(text)) in questions
        yield Question("shuffled" if is_shuffled else "gibberish", text)
    for text in _words(chance, corpus):
        yield Question("word", text)


def _is_chinese(corpus: Corpus) -> bool:
    return is_mostly_cjk(" ".join(list(corpus.questions.values())[:50]))


def _gibberish(chance: random.Random, corpus: Corpus, vocabulary: Sequence[str]) -> Iterator[str]:
    def letters(alphabet: str, shortest: int, longest: int) -> str:
        return "".join(chance.choice(alphabet) for _ in range(chance.randint(shortest, longest)))

    characters = _HAN.findall("".join(text for _, text in list(corpus.documents.values())[::7]))
    for _ in range(_GIBBERISH):
        yield " ".join(letters("abcdefghijklmnopqrstuvwxyz", 3, 10) for _ in range(chance.randint(1, 6)))
        yield " ".join(letters(chance.choice(_KEYS), 4, 9) for _ in range(chance.randint(1, 4)))
        shuffled = list(chance.choice(list(corpus.questions.values())))
        chance.shuffle(shuffled)
        yield "".join(shuffled)
        if len(characters) > 1000:
            yield "".join(chr(chance.randint(0x4E00, 0x9FA5)) for _ in range(chance.randint(4, 14)))
            yield "".join(chance.choice(characters) for _ in range(chance.randint(6, 14)))
        else:
            yield " ".join(chance.choice(vocabulary) for _ in range(chance.randint(3, 8)))
            yield " ".join(chance.choice(vocabulary) for _ in range(chance.randint(3, 8)))


def _words(chance: random.Random, corpus: Corpus) -> Iterator[str]:
    texts = [text for _, text in corpus.documents.values()]
    for text in chance.sample(texts, min(_WORDS, len(texts))):
        clauses = re.findall("[\u4e00-\u9fff]{4,}", text)
        words = [
            word for word in re.findall("[A-Za-z]{5,}", text) if word.lower() not in stop_lexemes("english")
        ]
        if clauses:
            clause = chance.choice(clauses)
            start = chance.randint(0, len(clause) - 2)
            yield clause[start : start + chance.choice((2, 2, 3, 4))]
        elif words:
            yield chance.choice(words)


def vocabulary_of(corpora: Sequence[Corpus]) -> list[str]:
    """The English words that the corpora have in common texts."""
    words = {
        word
        for corpus in corpora
        for _, text in list(corpus.documents.values())[::5]
        for word in re.findall("[a-z]{4,}", text)
    }
    return sorted(words)


class EvidenceRecorder:
    """Writes down what is known of the hits of a search, in their order."""

    def __init__(self) -> None:
        self.evidence: list[Evidence] = []
        self._score = relevance.score

    def __enter__(self) -> "EvidenceRecorder":
        def record(evidence: Evidence) -> float:
            self.evidence.append(evidence)
            return self._score(evidence)

        relevance.score = record
        return self

    def __exit__(self, *_: object) -> None:
        relevance.score = self._score


async def measure(
    mill: app.Gristmill,
    base: Base,
    items: Mapping[str, str],
    corpus: Corpus,
    questions: Sequence[Question],
    mode: Mode,
    output: TextIO | None,
) -> dict[str, list[bool]]:
    """Whether something fits, for the questions of each kind."""
    embedder = mill.embedders.get(base.embedder) if mode != "text" else None
    fits: dict[str, list[bool]] = defaultdict(list)
    for question in questions:
        request = SearchRequest(question.text, limit=10, mode=mode, min_score=0.0)
        with EvidenceRecorder() as recorder:
            answer = await mill.searcher.answer([Target(base, embedder)], request)
        fits[question.kind].append(answer.fits)
        right = [items[str(hit.item_id)] in question.documents for hit in answer.hits]
        if question.kind == "right":
            fits["right, the hit itself"].append(
                any(hit.fits and is_right for hit, is_right in zip(answer.hits, right, strict=True))
            )
        if output is not None:
            # What is weighed before, in bases of several languages, is no hit.
            evidence = recorder.evidence[len(recorder.evidence) - len(right) :]
            rows = [[asdict(known), is_right] for known, is_right in zip(evidence, right, strict=True)]
            record = {"corpus": corpus.name, "mode": mode, "kind": question.kind, "text": question.text}
            output.write(json.dumps({**record, "hits": rows}, ensure_ascii=False) + "\n")
    return fits


async def run(options: argparse.Namespace, data_dir: Path) -> None:
    corpora = [load(folder, options.questions) for folder in options.folders]
    parts = [part_of(corpus, size) for corpus in corpora for size in options.parts]
    notes = [corpus for corpus in note_corpora() if any(map(_is_chinese, corpora)) == _is_chinese(corpus)]
    vocabulary = vocabulary_of(corpora)
    output: TextIO | None = options.evidence.open("a", encoding="utf-8") if options.evidence else None
    async with app.gristmill(Settings(data_dir=data_dir, port=0), work=True) as mill:
        transport = httpx.ASGITransport(app=mill.api)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=600) as http:
            measured = [
                each for each in (*corpora, *parts, *notes) if not options.bases or each.name in options.bases
            ]
            for corpus in measured:
                base_id, items = await index_corpus(http, corpus, options.embedder, data_dir.parent)
                async with mill.db.connection() as tx:
                    bases = await catalog.list_bases(tx, limit=100)
                base = next(base for base in bases if str(base.id) == base_id)
                questions = list(questions_for(corpus, corpora, vocabulary))
                for mode in MODES if options.mode is None else (options.mode,):
                    print(f"{corpus.name}, {base.embedder}, {mode}")
                    fits = await measure(mill, base, items, corpus, questions, mode, output)
                    for kind, of_kind in fits.items():
                        print(f"  {kind:32} {sum(of_kind) / len(of_kind):.3f} of {len(of_kind)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--questions", type=int, default=200, help="at most this many of a corpus")
    parser.add_argument("--parts", type=int, nargs="*", default=[], help="also bases of so many documents")
    parser.add_argument("--bases", nargs="*", default=[], help="measure these corpora alone")
    parser.add_argument("--embedder", help="by default the one of the settings")
    parser.add_argument("--mode", choices=MODES, help="by default all")
    parser.add_argument("--evidence", type=Path, help="append what is known of the hits to this file")
    parser.add_argument("--data-dir", type=Path, help="keep the indexed data here, and use what is there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gristmill-scores-") as temporary:
        data_dir = (options.data_dir or Path(temporary)) / "data"
        data_dir.mkdir(parents=True, exist_ok=True)
        asyncio.run(run(options, data_dir))


if __name__ == "__main__":
    main()
