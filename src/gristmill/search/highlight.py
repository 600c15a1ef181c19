"""Finds the parts of a text that match the query, with the lexer that index and query share. Pure functions.

Stop words ("the", "a") are not highlighted: nearly every text has them, and they would hide the words that matter. A query of
stop words alone is highlighted like any other. Of Chinese and Japanese, pairs of characters are highlighted, and a character of
them not by itself: it is a part of many other words. Nothing inside an HTML tag is highlighted: people read the text around it.
"""

import re

from gristmill.search.language_detection import detect_language
from gristmill.search.lexer import fold, is_unspaced, matching_ranges, split_words
from gristmill.search.query_syntax import ParsedQuery
from gristmill.search.stop_words import stop_lexemes

# Only the names of HTML elements: `List<String>` and `a < b` are text.
_TAG = re.compile(
    r"<!--.*?-->|</?(?:a|abbr|article|b|blockquote|br|caption|center|cite|code|col|colgroup|dd|del|details|div|dl|dt|em"
    r"|figcaption|figure|font|footer|h[1-6]|header|hr|i|iframe|img|input|ins|kbd|label|li|main|mark|nav|ol|p|picture|pre|q|s"
    r"|samp|script|section|small|source|span|strong|style|sub|summary|sup|svg|table|tbody|td|tfoot|th|thead|time|tr|u|ul"
    r"|var|video)(?:\s[^<>]*)?/?>",
    re.IGNORECASE | re.DOTALL,
)
# Characters of questions and of small words, which other words hardly have. Those that coverage ignores are more: 会 is also in 会议.
_SMALL_CHARACTERS = frozenset(fold("的吗呢吧么什哪谁何怎这那"))


def highlight_ranges(text: str, parsed_query: ParsedQuery) -> list[tuple[int, int]]:
    """The character ranges to highlight, in order and without overlaps."""
    names, prefixes = parsed_query.names, parsed_query.prefixes
    language = detect_language(text, split_words(text))
    content_words = names - stop_lexemes(language)
    words = _without_parts(content_words if content_words or prefixes else names)
    merged: list[tuple[int, int]] = []

    def matches(lexeme: str) -> bool:
        return lexeme in words or bool(prefixes and lexeme.startswith(prefixes))

    for start, end in matching_ranges(text, matches if prefixes else words.__contains__, language):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return _outside_tags(text, merged)


def _without_parts(words: frozenset[str]) -> frozenset[str]:
    """Words without the characters of pairs, and without pairs that belong to small words, unless there are no others."""
    pairs = {word for word in words if len(word) > 1 and is_unspaced(word)}
    longer = words - frozenset("".join(pairs))
    small = {pair for pair in pairs if not _SMALL_CHARACTERS.isdisjoint(pair)}
    return longer - small or longer


def _outside_tags(text: str, ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    if "<" not in text:
        return ranges
    tags = [tag.span() for tag in _TAG.finditer(text)]
    return [
        (start, end)
        for start, end in ranges
        if not any(tag_start < end and start < tag_end for tag_start, tag_end in tags)
    ]
