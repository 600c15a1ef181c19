"""Footnotes of markdown: `[^1]` in a text, `[^1]: what the note says` on a line of its own, with a link from each to the other.

A note stays where it is written, under the label that its author gave it: a window of a long text can have the note or its reference
alone, so neither can be numbered or moved. The links are `#fn-1` and `#fnref-1`; the places are found by `find_footnotes`. Pure.
"""

import html
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

_LABEL = r"\[\^(?P<label>[^\s\[\]^]{1,80})\]"
_REFERENCE = re.compile(_LABEL)
_OPENING = re.compile(_LABEL + r":[ \t]*")
_MENTION = re.compile(rf"(?P<indent>^ {{0,3}})?{_LABEL}(?P<colon>:)?", re.MULTILINE)
_LINK = re.compile(r"#fn(?:ref)?-(.+)")
_INDENT = 4  # of what belongs to a note, below its first line
_LABELS = "footnotes"  # those that have a note, in the environment of a parser


@dataclass(frozen=True)
class Footnote:
    """A note: where it is written, and where the text first refers to it."""

    label: str
    start: int
    reference: int | None


def find_labels(text: str) -> set[str]:
    """The labels of notes and references in a text."""
    return {match["label"] for match in _MENTION.finditer(text)}


def find_footnotes(labels: Collection[str], parts: Iterable[tuple[int, str]]) -> list[Footnote]:
    """The notes with these labels, in parts of a text (start, text). A reference without a note is none."""
    notes: dict[str, int] = {}
    references: dict[str, int] = {}
    for start, text in parts:
        for match in _MENTION.finditer(text):
            is_note = match["indent"] is not None and match["colon"] is not None
            if match["label"] in labels:
                (notes if is_note else references).setdefault(match["label"], start + match.start())
    return [Footnote(label, start, references.get(label)) for label, start in notes.items()]


def add_footnotes(parser: MarkdownIt) -> None:
    """Let a parser render notes, and references to those that its environment names."""
    parser.block.ruler.before("reference", "footnote", _parse_note, {"alt": ["paragraph", "reference"]})
    parser.inline.ruler.before("link", "footnote", _parse_reference)
    parser.core.ruler.push("footnotes", _add_links)
    parser.add_render_rule("footnote_open", _render_opening)
    parser.add_render_rule("footnote_close", _render_closing)
    parser.add_render_rule("footnote_label", _render_label)
    parser.add_render_rule("footnote_reference", _render_reference)
    parser.add_render_rule("footnote_back", _render_back)


def environment_of(labels: Iterable[str]) -> dict[str, Any]:
    """The environment of a parser for a text in which these labels have a note."""
    return {_LABELS: frozenset(labels)}


def is_footnote_link(address: str, environment: Mapping[str, Any]) -> bool:
    """Whether an address leads to a note, or from one to its reference."""
    match = _LINK.fullmatch(address)
    return match is not None and unquote(match[1]) in environment.get(_LABELS, ())


def _parse_note(state: StateBlock, first_line: int, last_line: int, silent: bool) -> bool:
    begin = state.bMarks[first_line] + state.tShift[first_line]
    match = _OPENING.match(state.src, begin, state.eMarks[first_line])
    if match is None or state.is_code_block(first_line) or match["label"] not in state.env.get(_LABELS, ()):
        return False
    if silent:
        return True
    opening = state.push("footnote_open", "", 1)
    opening.meta = {"label": match["label"]}
    before = state.bMarks[first_line], state.tShift[first_line], state.sCount[first_line], state.parentType
    # What follows the label is as far to the right as the lines below that belong to the note.
    state.bMarks[first_line], state.tShift[first_line] = match.end(), 0
    state.blkIndent += _INDENT
    state.sCount[first_line], state.parentType = state.blkIndent, "footnote"
    state.md.block.tokenize(state, first_line, last_line)
    state.blkIndent -= _INDENT
    state.bMarks[first_line], state.tShift[first_line], state.sCount[first_line], state.parentType = before
    state.push("footnote_close", "", -1)
    opening.map = [first_line, state.line]
    return True


def _parse_reference(state: StateInline, silent: bool) -> bool:
    match = _REFERENCE.match(state.src, state.pos, state.posMax)
    if match is None or match["label"] not in state.env.get(_LABELS, ()):
        return False
    if state.src.startswith("(", match.end()):  # a link whose text looks like one
        return False
    if not silent:
        state.push("footnote_reference", "", 0).meta = {"label": match["label"]}
    state.pos = match.end()
    return True


def _add_links(state: StateCore) -> None:
    """Put the label before the first text of each note, and the link back after its last."""
    texts: list[Token] = []
    opening: Token | None = None
    for token in state.tokens:
        if token.type == "footnote_open":
            opening, texts = token, []
        elif token.type == "inline" and opening is not None:
            texts.append(token)
        elif token.type == "footnote_close" and opening is not None:
            if texts:
                texts[0].children = [_token("footnote_label", opening), *(texts[0].children or [])]
                texts[-1].children = [*(texts[-1].children or []), _token("footnote_back", opening)]
            opening = None


def _token(kind: str, opening: Token) -> Token:
    return Token(kind, "", 0, meta=dict(opening.meta))


def _render_opening(_self: Any, _tokens: Sequence[Token], _index: int, _options: Any, _env: Any) -> str:
    return "<div>"


def _render_closing(_self: Any, _tokens: Sequence[Token], _index: int, _options: Any, _env: Any) -> str:
    return "</div>\n"


def _render_label(_self: Any, tokens: Sequence[Token], index: int, _options: Any, _env: Any) -> str:
    return f"<sup>{html.escape(tokens[index].meta['label'])}</sup> "


def _render_reference(_self: Any, tokens: Sequence[Token], index: int, _options: Any, _env: Any) -> str:
    label = tokens[index].meta["label"]
    return f'<sup><a href="#fn-{quote(label, safe="")}">{html.escape(label)}</a></sup>'


def _render_back(_self: Any, tokens: Sequence[Token], index: int, _options: Any, _env: Any) -> str:
    return f' <a href="#fnref-{quote(tokens[index].meta["label"], safe="")}">↩</a>'
