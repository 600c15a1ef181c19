"""Small changes of Python code, one at a time: comparisons, arithmetic, conditions, constants, min for max, and calls whose
only use is their effect, which are left out.

Messages, docstrings, annotations and decorators are left alone: changing them changes no decision.
"""

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import cast

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
_CALLS = {"min": "max", "max": "min", "any": "all", "all": "any"}


@dataclass(frozen=True)
class CodeMutation:
    """One change: the function or constant that it is in, the expression before and after, and the changed module."""

    place: str
    old: str
    new: str
    line: int
    tree: ast.Module

    @property
    def key(self) -> str:
        """What identifies it, also after lines were added above."""
        return f"{self.place}: {self.old} → {self.new}"


def mutations(source: str) -> Iterator[CodeMutation]:
    """Every change of a module."""
    tree = ast.parse(source)
    nodes = {id(node): number for number, node in enumerate(ast.walk(tree))}
    for place, parent, field, index, node in _sites(tree):
        for variant in (*_variants(node), *_variants_in(parent, field, node)):
            changed = copy.deepcopy(tree)
            target = next(islice(ast.walk(changed), nodes[id(parent)], None))
            slot = getattr(target, field)
            if index is None:
                setattr(target, field, variant)
            else:
                slot[index] = variant
            ast.fix_missing_locations(changed)
            old, new = ast.unparse(node), ast.unparse(variant)
            yield CodeMutation(place, old, new, getattr(node, "lineno", 0), changed)


def _sites(node: ast.AST, place: str = "") -> Iterator[tuple[str, ast.AST, str, int | None, ast.expr]]:
    """Every expression that may be changed: where it is, its parent, and its slot there."""
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        children = cast(list[object], value) if isinstance(value, list) else [value]
        for number, child in enumerate(children):
            if not isinstance(child, ast.AST) or _is_message(child):
                continue
            inner = _inner_place(child, place)
            if isinstance(child, ast.expr) and isinstance(getattr(child, "ctx", ast.Load()), ast.Load):
                yield inner, node, field, number if isinstance(value, list) else None, child
            yield from _sites(child, inner)


def _inner_place(node: ast.AST, place: str) -> str:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return f"{place}.{node.name}".lstrip(".")
    if isinstance(node, ast.Assign) and not place:
        return ast.unparse(node.targets[0])
    return place


def _is_message(node: ast.AST) -> bool:
    """Whether it is only text for people: a docstring, a formatted string, or an error that is raised."""
    return (
        isinstance(node, ast.JoinedStr)
        or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        or isinstance(node, ast.Raise | ast.Import | ast.ImportFrom | ast.Assert)
    )


def _variants_in(parent: ast.AST, field: str, node: ast.expr) -> Iterator[ast.expr]:
    """Changes that depend on what the expression is for: a condition is negated, an effect is left out."""
    plain = isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.NamedExpr | ast.Await)
    if plain and (
        isinstance(parent, ast.If | ast.While) or (isinstance(parent, ast.comprehension) and field == "ifs")
    ):
        yield ast.UnaryOp(ast.Not(), copy.deepcopy(node))
    if isinstance(parent, ast.Expr) and isinstance(node, ast.Call | ast.Await):
        yield ast.Constant(None)


def _variants(node: ast.expr) -> Iterator[ast.expr]:
    changed = copy.deepcopy(node)
    match changed:
        case ast.Compare(ops=[operator]):
            changed.ops = [_COMPARISONS[type(operator)]()]
            yield changed
        case ast.BinOp(op=operator) if type(operator) in _ARITHMETIC:
            changed.op = _ARITHMETIC[type(operator)]()
            yield changed
        case ast.BoolOp(op=operator):
            changed.op = ast.Or() if isinstance(operator, ast.And) else ast.And()
            yield changed
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield operand
        case ast.IfExp(body=body, orelse=other):
            yield body
            yield other
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value) | float(value)):
            yield ast.Constant(value + 1)
        case ast.Call(func=ast.Name(id=name)) if name in _CALLS:
            changed.func = ast.Name(_CALLS[name], ast.Load())
            yield changed
        case _:
            pass
