import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.ingest.chunk import split
from tests.embedding.hashed import HashedEmbedder

EMBEDDER = HashedEmbedder()
DOCUMENT = """# Guide

Intro text.

## Install

Run this:

```sh
# not a heading
pip install gristmill
```

## 使用

知识库不会丢失任何文档。它会一直保持真实。

# Appendix

The end.
"""


@given(st.text(max_size=2000), st.integers(4, 64))
@settings(max_examples=60)
def test_offsets_are_exact_and_no_piece_is_too_long(text: str, tokens: int) -> None:
    pieces = split(text, EMBEDDER.tokenizer, tokens)
    for piece in pieces:
        assert text[piece.start : piece.end] == piece.text
        assert EMBEDDER.count_tokens(piece.text) <= tokens
    assert [piece.index for piece in pieces] == list(range(len(pieces)))


@given(
    st.lists(
        st.sampled_from(["alpha", "beta", "知识库", "# head\n", "\n\n", " ", "```\n", "- item\n"]),
        max_size=200,
    )
)
@settings(max_examples=60)
def test_nothing_but_space_is_left_out(parts: list[str]) -> None:
    text = " ".join(parts)
    covered = [False] * len(text)
    for piece in split(text, EMBEDDER.tokenizer, 16):
        covered[piece.start : piece.end] = [True] * len(piece.text)
    assert "".join(c for c, seen in zip(text, covered, strict=True) if not seen).strip() == ""


def test_a_piece_knows_the_headings_it_stands_under() -> None:
    pieces = split(DOCUMENT, EMBEDDER.tokenizer, 12)
    by_text = {piece.text: piece.headings for piece in pieces}
    assert next(path for text, path in by_text.items() if "pip install" in text) == ("Guide", "Install")
    assert next(path for text, path in by_text.items() if "保持真实" in text) == ("Guide", "使用")
    assert next(path for text, path in by_text.items() if "The end" in text) == ("Appendix",)


@pytest.mark.parametrize("text", ["", "   ", "\n\n"])
def test_nothing_gives_no_pieces(text: str) -> None:
    assert split(text, EMBEDDER.tokenizer, 16) == []
