"""Rank Markdown lines by how well a chunk may start there. Pure; one line at a time, with a look at the next.

    rank       a chunk that starts here starts with …
    1 … 6      a heading of that level (ATX or setext)
    BLOCK      a paragraph, list, table or fence of the outermost level
    PART       a list item, a block inside an item, what follows a blank line in code, a block after a line with a colon
    LINE       a row of a table, a line of code or of a paragraph, a nested item
    SENTENCE   a sentence; the ranks from here on are assigned by chunk.py
    WORD       a word or clause; also what belongs to the line before (below a heading, a table's rule, a fence's end)
    INSIDE     the middle of a word

Text in a fence or in front matter is neither heading nor list. An unclosed fence extends to the end.
"""

import re

BLOCK, PART, LINE, SENTENCE, WORD, INSIDE = range(7, 13)

_KIND = re.compile(
    r"(?P<blank>\s*$)"
    r"|[ \t]*(?P<fence>`{3,}(?=[^`]*$)|~{3,})"
    r"|[ ]{0,3}(?P<heading>\#{1,6})(?=[ \t\r\n]|$)"
    r"|(?P<indent>[ \t]*)(?:(?P<row>\|)|(?P<item>[-*+]|\d{1,9}[.)])[ \t])"
)
_UNDERLINE = re.compile(r" {0,3}(?:(=+)|-{2,})[ \t]*\r?\n?$")
_RULE = re.compile(r"[ \t]*(?:\|[ \t]*)?:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*(?:\|[ \t]*)?\r?\n?$")
_FRONT_MATTER = re.compile(r"---[ \t]*\r?\n$")
_FIELD = re.compile(r"[A-Za-z_][\w-]*:")
_FRONT_MATTER_END = re.compile(r"(?:---|\.\.\.)[ \t]*\r?\n?$")
_FRONT_MATTER_LINES = 200
_CONTINUES = {("text", "text"), ("text", "item"), ("row", "row")}

Path = tuple[str, ...]


class MarkdownStructure:
    """The structure of the document so far; `path` is the headings above the last ranked line."""

    def __init__(self) -> None:
        self.path: Path = ()
        self._levels: list[tuple[int, str]] = []
        self._fence: str | None = None
        self._front_matter_left = 0  # how many more lines of it are allowed
        self._previous_kind = "start"  # the kind of the last non-blank line
        self._after_blank = True  # whether the line before is blank or missing
        self._in_list = False
        self._after_colon = False  # the last line ended with a colon

    def rank(self, line: str, following: str) -> int:
        """How well a chunk may start with `line`; `following` is the line after it, empty at the end."""
        if self._fence is not None or self._front_matter_left:
            return self._rank_verbatim(line)
        if self._previous_kind == "start" and _FRONT_MATTER.match(line) and _FIELD.match(following):
            self._front_matter_left = _FRONT_MATTER_LINES
            return self._remember("opening", BLOCK)
        match = _KIND.match(line)
        kind = (match.lastgroup or "text") if match else "text"
        if kind == "blank":
            self._after_blank = True
            return WORD
        if kind == "heading":
            assert match is not None
            return self._rank_heading(len(match["heading"]), _title(line))
        if kind == "text" and self._is_underlined(following):
            underline = _UNDERLINE.match(following)
            return self._rank_heading(1 if underline and underline[1] else 2, line.strip(), setext=True)
        if self._previous_kind == "setext" or (
            kind in ("text", "row") and self._previous_kind == "row" and _RULE.match(line)
        ):
            return self._remember("heading" if self._previous_kind == "setext" else "row", WORD)
        indented = line[0] in " \t"
        rank = self._rank_block(kind, indented=indented)
        if kind == "fence":
            assert match is not None
            self._fence = match["fence"]
            kind = "opening"
        self._after_colon = line.rstrip().endswith((":", "："))
        return self._remember(kind, rank)

    def _rank_block(self, kind: str, *, indented: bool) -> int:
        previous = self._previous_kind
        if previous == "heading":
            rank = WORD
        elif not self._after_blank and (kind, previous) in _CONTINUES:
            rank = LINE
        elif kind == "item" and self._in_list:
            rank = LINE if indented else PART
        elif self._after_colon or (indented and self._in_list):
            rank = PART
        else:
            rank = BLOCK
        if kind == "item":
            self._in_list = True
        elif not indented and (self._after_blank or kind != "text"):
            self._in_list = False
        return rank

    def _rank_verbatim(self, line: str) -> int:
        opening, blank = self._previous_kind == "opening", self._after_blank
        bare = line.strip()
        if self._fence is not None:
            closes = bare.startswith(self._fence) and not bare.strip(self._fence[0])
        else:
            self._front_matter_left -= 1
            closes = _FRONT_MATTER_END.match(line) is not None or not self._front_matter_left
        if closes:
            self._fence, self._front_matter_left = None, 0
            return self._remember("closing", WORD)
        if not bare:
            self._after_blank = True
            return WORD
        return self._remember("code", WORD if opening else PART if blank else LINE)

    def _rank_heading(self, level: int, title: str, *, setext: bool = False) -> int:
        self._levels = [entry for entry in self._levels if entry[0] < level]
        below_a_heading = self._previous_kind == "heading"
        if title:
            self._levels.append((level, title))
        self.path = tuple(above for _, above in self._levels)
        self._in_list = self._after_colon = False
        # A heading directly below another stays with it, because there is no text between them.
        return self._remember("setext" if setext else "heading", WORD if below_a_heading else level)

    def _is_underlined(self, following: str) -> bool:
        opens = self._after_blank or self._previous_kind in ("heading", "closing")
        return opens and bool(following) and _UNDERLINE.match(following) is not None

    def _remember(self, kind: str, rank: int) -> int:
        if kind not in ("text", "item"):
            self._after_colon = False
        self._previous_kind, self._after_blank = kind, False
        return rank


def _title(line: str) -> str:
    title = line.strip().lstrip("#").strip()
    bare = title.rstrip("#")
    return bare.rstrip() if not bare or bare[-1] in " \t" else title
