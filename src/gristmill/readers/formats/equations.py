"""Equations of Office documents (OMML) as LaTeX. What is unknown gives the text inside it."""

from collections.abc import Callable
from typing import Any

_MAX_DEPTH = 60
_OPERATORS = {
    "∑": r"\sum", "∏": r"\prod", "∐": r"\coprod", "∫": r"\int", "∬": r"\iint", "∭": r"\iiint", "∮": r"\oint",
    "⋃": r"\bigcup", "⋂": r"\bigcap", "⋁": r"\bigvee", "⋀": r"\bigwedge",
}  # fmt: skip
_ACCENTS = {
    "\u0302": r"\hat", "\u0303": r"\tilde", "\u0304": r"\bar", "\u0305": r"\overline", "\u0307": r"\dot",
    "\u0308": r"\ddot", "\u20d7": r"\vec", "\u0306": r"\breve", "\u030c": r"\check", "\u0301": r"\acute",
}  # fmt: skip
_SYMBOLS = {
    "α": r"\alpha", "β": r"\beta", "γ": r"\gamma", "δ": r"\delta", "ε": r"\varepsilon", "ζ": r"\zeta", "η": r"\eta",
    "θ": r"\theta", "ι": r"\iota", "κ": r"\kappa", "λ": r"\lambda", "μ": r"\mu", "ν": r"\nu", "ξ": r"\xi", "π": r"\pi",
    "ρ": r"\rho", "σ": r"\sigma", "τ": r"\tau", "υ": r"\upsilon", "φ": r"\varphi", "ϕ": r"\phi", "χ": r"\chi",
    "ψ": r"\psi", "ω": r"\omega", "Γ": r"\Gamma", "Δ": r"\Delta", "Θ": r"\Theta", "Λ": r"\Lambda", "Ξ": r"\Xi",
    "Π": r"\Pi", "Σ": r"\Sigma", "Φ": r"\Phi", "Ψ": r"\Psi", "Ω": r"\Omega", "∞": r"\infty", "±": r"\pm", "∓": r"\mp",
    "×": r"\times", "÷": r"\div", "⋅": r"\cdot", "≤": r"\leq", "≥": r"\geq", "≠": r"\neq", "≈": r"\approx",
    "≡": r"\equiv", "∼": r"\sim", "∝": r"\propto", "→": r"\to", "←": r"\leftarrow", "↔": r"\leftrightarrow",
    "⇒": r"\Rightarrow", "⇔": r"\Leftrightarrow", "∂": r"\partial", "∇": r"\nabla", "∈": r"\in", "∉": r"\notin",
    "⊂": r"\subset", "⊆": r"\subseteq", "∪": r"\cup", "∩": r"\cap", "∀": r"\forall", "∃": r"\exists",
    "∅": r"\emptyset", "…": r"\ldots", "⋯": r"\cdots", "−": "-", "∧": r"\wedge", "∨": r"\vee", "¬": r"\neg",
}  # fmt: skip
_ESCAPED = {letter: f"\\{letter}" for letter in "#$%&_{}"}
_ROW_END = r" \\ "
_BRACKETS = {"{": r"\{", "}": r"\}", "⟨": r"\langle", "⟩": r"\rangle", "‖": r"\|", "": "."}


def latex(node: Any, depth: int = 0) -> str:
    """The LaTeX of an element of an equation and what is inside it."""
    if depth > _MAX_DEPTH:
        return ""
    return (
        "".join(_element(child, depth + 1) for child in node).strip()
        if depth == 0
        else _children(node, depth)
    )


def _children(node: Any, depth: int) -> str:
    return "".join(_element(child, depth + 1) for child in node)


def _element(node: Any, depth: int) -> str:
    name = node.tag.rpartition("}")[2] if isinstance(node.tag, str) else ""
    if depth > _MAX_DEPTH or not name or name.endswith("Pr"):
        return ""
    if name == "t":
        return symbols(node.text or "")
    write = _WRITERS.get(name)
    return write(node, depth) if write else _children(node, depth)


def symbols(text: str) -> str:
    """Letters and signs as LaTeX."""
    return "".join(_letter(letter) for letter in text)


def _letter(letter: str) -> str:
    if letter in _SYMBOLS:
        return f"{_SYMBOLS[letter]} " if len(_SYMBOLS[letter]) > 1 else _SYMBOLS[letter]
    return _ESCAPED.get(letter, letter)


def _part(node: Any, name: str, depth: int) -> str:
    part = node.find(f"{{*}}{name}")
    return _children(part, depth).strip() if part is not None else ""


def _property(node: Any, name: str, default: str) -> str:
    """The value of a property; one without a value is empty."""
    properties = next((child for child in node if str(child.tag).endswith("Pr")), None)
    value = properties.find(f"{{*}}{name}") if properties is not None else None
    if value is None:
        return default
    return next((text for key, text in value.attrib.items() if key.rpartition("}")[2] == "val"), "")


def _fraction(node: Any, depth: int) -> str:
    over, under = _part(node, "num", depth), _part(node, "den", depth)
    return (
        rf"\binom{{{over}}}{{{under}}}"
        if _property(node, "type", "bar") == "noBar"
        else rf"\frac{{{over}}}{{{under}}}"
    )


def _script(node: Any, depth: int) -> str:
    base, below, above = (_part(node, name, depth) for name in ("e", "sub", "sup"))
    scripts = (f"_{{{below}}}" if below else "") + (f"^{{{above}}}" if above else "")
    is_before = node.tag.endswith("sPre")
    return f"{{}}{scripts}{base}" if is_before else f"{base}{scripts}"


def _root(node: Any, depth: int) -> str:
    degree = _part(node, "deg", depth)
    return rf"\sqrt{f'[{degree}]' if degree else ''}{{{_part(node, 'e', depth)}}}"


def _large_operator(node: Any, depth: int) -> str:
    sign = _property(node, "chr", "∫")
    below, above = _part(node, "sub", depth), _part(node, "sup", depth)
    limits = (f"_{{{below}}}" if below else "") + (f"^{{{above}}}" if above else "")
    return f"{_OPERATORS.get(sign, sign)}{limits} {_part(node, 'e', depth)}"


def _delimiters(node: Any, depth: int) -> str:
    left, right = _property(node, "begChr", "("), _property(node, "endChr", ")")
    separator = _property(node, "sepChr", "|")
    inside = separator.join(_children(child, depth).strip() for child in node.iterchildren("{*}e"))
    return rf"\left{_BRACKETS.get(left, left)}{inside}\right{_BRACKETS.get(right, right)}"


def _matrix(node: Any, depth: int) -> str:
    rows = (
        " & ".join(_children(cell, depth).strip() for cell in row.iterchildren("{*}e"))
        for row in node.iterchildren("{*}mr")
    )
    return r"\begin{matrix}" + _ROW_END.join(rows) + r"\end{matrix}"


def _equation_array(node: Any, depth: int) -> str:
    rows = (_children(row, depth).strip() for row in node.iterchildren("{*}e"))
    return r"\begin{aligned}" + _ROW_END.join(rows) + r"\end{aligned}"


def _accent(node: Any, depth: int) -> str:
    accent = _ACCENTS.get(_property(node, "chr", "\u0302"), r"\hat")
    return f"{accent}{{{_part(node, 'e', depth)}}}"


def _bar(node: Any, depth: int) -> str:
    command = r"\overline" if _property(node, "pos", "bot") == "top" else r"\underline"
    return f"{command}{{{_part(node, 'e', depth)}}}"


def _function(node: Any, depth: int) -> str:
    name = _part(node, "fName", depth)
    command = "\\" + name if name.isalpha() and name.isascii() else name
    return f"{command} {_part(node, 'e', depth)}"


def _limit(node: Any, depth: int) -> str:
    mark = "_" if node.tag.endswith("limLow") else "^"
    return f"{_part(node, 'e', depth)}{mark}{{{_part(node, 'lim', depth)}}}"


_WRITERS: dict[str, Callable[[Any, int], str]] = {
    "f": _fraction,
    "sSup": _script,
    "sSub": _script,
    "sSubSup": _script,
    "sPre": _script,
    "rad": _root,
    "nary": _large_operator,
    "d": _delimiters,
    "m": _matrix,
    "eqArr": _equation_array,
    "acc": _accent,
    "bar": _bar,
    "func": _function,
    "limLow": _limit,
    "limUpp": _limit,
}
