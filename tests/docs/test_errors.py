"""docs/reference/errors.md lists every code that can be returned, and no other."""

import ast
import re
from collections.abc import Iterator

from gristmill.server.api.problems import FRAMEWORK_CODES, STATUSES
from tests.docs.pages import SOURCE, read, rows

# An error as JSON, or a column that is set to one or compared with one.
_IN_SQL = re.compile(r"""(?<=['"]code['"]: ")\w+|(?<=error_code = ')\w+|(?<=error_code <> ')\w+""")


def strings(node: ast.AST | None) -> Iterator[str]:
    """The strings that an expression may give, choices included."""
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.IfExp(body=body, orelse=orelse):
            yield from strings(body)
            yield from strings(orelse)
        case _:
            return


def assigned_values(target: ast.expr, value: ast.expr | None) -> Iterator[tuple[str, ast.expr | None]]:
    """Names and what they are given, also where several are given at once."""
    match target, value:
        case ast.Name(id=name), _:
            yield name, value
        case ast.Tuple(elts=names), ast.Tuple(elts=values):
            for element, element_value in zip(names, values, strict=True):
                yield from assigned_values(element, element_value)
        case _:
            return


def codes_of(node: ast.AST) -> Iterator[str]:
    """The codes that one node of a module gives."""
    match node:
        case ast.keyword(arg="code", value=value):
            yield from strings(value)
        case ast.Assign(targets=[target], value=value):
            for name, assigned in assigned_values(target, value):
                if name == "code":
                    yield from strings(assigned)
                elif name == "_KNOWN_FAILURES" and isinstance(assigned, ast.Tuple):  # (phrase, code, message)
                    for entry in assigned.elts:
                        assert isinstance(entry, ast.Tuple)
                        yield from strings(entry.elts[1])
        case ast.Dict(keys=keys, values=values):
            for key, value in zip(keys, values, strict=True):
                if "code" in strings(key):
                    yield from strings(value)
        case ast.Call(func=ast.Name(id="problem"), args=[_, code, *_]):
            yield from strings(code)
        case ast.Call(func=ast.Name(id="_parse_uuid"), args=[_, _, code]):
            yield from strings(code)
        case _:
            return


def codes() -> set[str]:
    """Every code in the source."""
    all_codes = set(FRAMEWORK_CODES.values())
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            all_codes |= set(codes_of(node))
    for path in SOURCE.rglob("*.sql"):
        all_codes |= set(_IN_SQL.findall(path.read_text(encoding="utf-8")))
    return all_codes


def documented_codes() -> dict[str, list[str]]:
    """The rows of the page by code."""
    entries = [
        (row[0].strip("`"), row[1:])
        for row in rows(read("docs/reference/errors.md"))
        if row[0].startswith("`")
    ]
    assert len(entries) == len(dict(entries)), "a code is documented twice"
    return dict(entries)


def test_every_code_is_documented_and_every_documented_code_exists() -> None:
    assert sorted(documented_codes()) == sorted(codes())


def test_the_codes_are_found_in_every_form_they_are_written_in() -> None:
    forms = {
        "class": "lease_lost",
        "keyword": "base_name_taken",
        "choice": "embedder_rate_limited",
        "tuple": "data_dir_not_writable",
        "table": "shared_memory_limit",
        "dict": "deleted",
        "problem": "foreign_host",
        "framework": "no_such_route",
        "json in sql": "worker_stopped",
        "column in sql": "dismissed",
        "condition in sql": "all_failed",
    }
    assert set(forms.values()) <= codes()


def test_every_code_is_in_snake_case_and_says_what_it_means_and_what_to_do() -> None:
    for code, (status, meaning, advice) in documented_codes().items():
        assert re.fullmatch(r"[a-z]+(_[a-z0-9]+)*", code), code
        assert all((status, meaning, advice)), code


def test_every_status_of_an_error_is_one_that_the_api_answers() -> None:
    statuses = {str(status) for status in (*STATUSES.values(), *FRAMEWORK_CODES, 400, 431, 500)}
    for code, (status, *_) in documented_codes().items():
        assert status == "–" or set(re.findall(r"\d+", status)) <= statuses, code
