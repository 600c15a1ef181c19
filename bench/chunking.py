"""Speed of chunking: `uv run python bench/chunking.py FOLDER...`, folders of Markdown files.

Prints MB of text per second of CPU time in one thread, with the default embedder's tokenizer and with a tokenizer of
words: for the first run, when all words are new, for a second run, and for the tokenizer alone.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path

from tokenizers import Regex, Tokenizer, models, pre_tokenizers

from gristmill.embedding.local_models import GRANITE
from gristmill.ingest import tokens
from gristmill.ingest.chunk import DEFAULT_TOKENS, split


def word_tokenizer() -> Tokenizer:
    """A tokenizer whose tokens are words, and single Chinese, Japanese and Korean characters."""
    tokenizer = Tokenizer(models.WordLevel({"<unk>": 0}, unk_token="<unk>"))
    single = pre_tokenizers.Split(Regex(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"), "isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), single])
    return tokenizer


def main(folders: list[str]) -> None:
    tokenizers = {"default embedder's": GRANITE.tokenizer, "words": word_tokenizer()}
    print("| corpus | tokenizer | MB | first | again | tokenizer | chunks | mean tokens | below 32 |")
    for folder in folders:
        texts = [path.read_text(errors="replace") for path in sorted(Path(folder).rglob("*.md"))]
        size = sum(len(text.encode()) for text in texts) / 1e6
        for name, tokenizer in tokenizers.items():
            tokens.token_counter.cache_clear()

            def chunk_texts(tokenizer: Tokenizer = tokenizer, texts: list[str] = texts) -> list[str]:
                return [piece.text for text in texts for piece in split(text, tokenizer, DEFAULT_TOKENS)]

            first, again = size / cpu_seconds(chunk_texts), size / cpu_seconds(chunk_texts)
            tokenizer_only = size / cpu_seconds(
                lambda t=tokenizer, x=texts: t.encode_batch_fast(x, add_special_tokens=False)
            )
            counts = [
                len(encoding)
                for encoding in tokenizer.encode_batch_fast(chunk_texts(), add_special_tokens=False)
            ]
            short, mean = sum(count < 32 for count in counts), sum(counts) / len(counts)
            print(
                f"| {Path(folder).name} | {name} | {size:.1f} | {first:.2f} | {again:.2f} | {tokenizer_only:.2f}"
                f" | {len(counts)} | {mean:.0f} | {short} |",
                flush=True,
            )


def cpu_seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


if __name__ == "__main__":
    main(sys.argv[1:])
