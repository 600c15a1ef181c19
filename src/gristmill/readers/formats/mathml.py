"""Formulas in MathML as LaTeX. What is unknown gives the text inside it."""

from typing import Any

from gristmill.readers.formats.equations import symbols

_MAX_DEPTH = 100
_LARGE = {"∑": r"\sum", "∏": r"\prod", "∫": r"\int", "∮": r"\oint", "lim": r"\lim"}


def mathml_latex(node: Any) -> str:
    """The LaTeX of a formula."""
    return " ".join(_write(node, 0).split())


def _write(node: Any, depth: int) -> str:
    name = node.tag.rpartition("}")[2] if isinstance(node.tag, str) else ""
    if depth > _MAX_DEPTH or not name or name.startswith("annotation"):
        return ""
    if name in ("mi", "mn", "mo", "mtext", "ms"):
        text = " ".join("".join(node.itertext()).split())
        return _LARGE.get(text) or (rf"\text{{{text}}}" if name == "mtext" else symbols(text))
    parts = [_write(child, depth + 1) for child in node]
    first, second, third = ([part.strip() for part in parts] + ["", "", ""])[:3]
    match name:
        case "mfrac":
            return rf"\frac{{{first}}}{{{second}}}"
        case "msup" | "mover":
            return f"{first}^{{{second}}}"
        case "msub" | "munder":
            return f"{first}_{{{second}}}"
        case "msubsup" | "munderover":
            return f"{first}_{{{second}}}^{{{third}}} "
        case "msqrt":
            return rf"\sqrt{{{''.join(parts).strip()}}}"
        case "mroot":
            return rf"\sqrt[{second}]{{{first}}}"
        case "mfenced":
            return rf"\left({','.join(parts)}\right)"
        case "mtable":
            return r"\begin{matrix}" + r" \\ ".join(parts) + r"\end{matrix}"
        case "mtr":
            return " & ".join(parts)
        case _:
            return "".join(parts)
