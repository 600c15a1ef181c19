"""Variants of Chinese characters: traditional and regional forms, and the simplified character that each one is folded to.

The lexer folds single characters, so that offsets stay exact. One simplified character can stand for several traditional
ones (发 for 發 and 髮): the pairs of neighbours keep their words apart. The groups are in `han_variants.txt`.
"""

from importlib import resources


def _read_variants() -> dict[int, str]:
    text = resources.files("gristmill.search").joinpath("han_variants.txt").read_text(encoding="utf-8")
    groups = [group for line in text.splitlines() if not line.startswith("#") for group in line.split()]
    return {ord(variant): group[0] for group in groups for variant in group[1:]}


HAN_VARIANTS = _read_variants()  # for `str.translate`
