"""Whether connectors ask what tools take: `uv run --group bench python -m bench.conformity CALLS KIND DESCRIPTION…`.

Compares requests that connectors made with a tool's published OpenAPI description (JSON or YAML, version 2 or 3; it is not
part of this project): the path and its parameters are there, each parameter is known and of its type, none that is required
is missing, and a body is as its schema says. `CALLS` is a folder that the tests fill:

    mkdir calls && RECORD_CALLS=$PWD/calls uv run pytest tests/connectors
    uv run --group bench python -m bench.conformity calls jira swagger-v3.v3.json
    uv run --group bench python -m bench.conformity calls github api.github.com.json --but /graphql --but /repositories/

A path that no description has is told, and how many requests there were of each; exit code 1 when anything does not conform.
`--but` leaves out what is described elsewhere, or was asked for because the tool sent us there. `jiradatacenter` and
`confluencedatacenter` are recorded apart: there is no such description of them.
"""

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import jsonschema
import yaml

Json = dict[str, Any]
_METHODS = ("get", "post", "put", "patch", "delete")
# What each tool's address may begin with, before the paths of its description.
_PREFIXES = ("", "/api/v3", "/wiki/api/v2", "/wiki", "/api/v4")


@dataclass(frozen=True)
class Operation:
    """One method of one path."""

    pattern: re.Pattern[str]
    method: str
    template: str
    parameters: Mapping[tuple[str, str], Json]
    body: Json | None
    whole: Json  # the description, for what is referred to

    @property
    def weight(self) -> int:
        """Paths with fewer places to fill come first, as tools route them."""
        return self.template.count("{")


def described(path: Path) -> list[Operation]:
    """All operations of a description."""
    text = path.read_text(encoding="utf-8")
    whole = cast(Json, json.loads(text) if path.suffix == ".json" else yaml.safe_load(text))
    found: list[Operation] = []
    for template, entry in whole["paths"].items():
        shared = [_followed(whole, one) for one in entry.get("parameters", [])]
        for method in _METHODS:
            if method not in entry:
                continue
            own = [_followed(whole, one) for one in entry[method].get("parameters", [])]
            parameters = {(one["in"], one["name"]): one for one in (*shared, *own)}
            pattern = re.compile(re.sub(r"\\\{[^}]*\\\}", "[^/]+", re.escape(template)))
            found.append(
                Operation(pattern, method, template, parameters, _body(whole, entry[method], own), whole)
            )
    return sorted(found, key=lambda one: one.weight)


def _body(whole: Json, operation: Json, parameters: Sequence[Json]) -> Json | None:
    content = _followed(whole, operation.get("requestBody", {})).get("content", {})
    if "application/json" in content:
        return content["application/json"].get("schema")
    return next((one.get("schema") for one in parameters if one["in"] == "body"), None)


def _followed(whole: Json, entry: Json) -> Json:
    while "$ref" in entry:
        found: Any = whole
        for part in entry["$ref"].removeprefix("#/").split("/"):
            found = found[part.replace("~1", "/").replace("~0", "~")]
        entry = found
    return entry


def conforms(call: Json, operations: Sequence[Operation]) -> tuple[str, list[str]]:
    """The path that a request is for, and what is wrong with it."""
    path, method = str(urlsplit(str(call["path"])).path), call["method"].lower()
    for operation in operations:
        for prefix in _PREFIXES:
            if operation.method == method and operation.pattern.fullmatch(path.removeprefix(prefix)):
                name = f"{call['method']} {operation.template}"
                return name, [*_parameters(call, operation), *_sent(call, operation)]
    return f"{call['method']} {re.sub(r'[0-9]+', '1', path)}", ["no such path"]


def _parameters(call: Json, operation: Operation) -> Iterator[str]:
    for name, text in call["params"].items():
        known = operation.parameters.get(("query", name)) or operation.parameters.get(("query", f"{name}[]"))
        if known is None:
            yield f"unknown parameter {name}"
        elif not _fits(text, known.get("schema", known), operation.whole):
            yield f"{name}={text!r} is not {json.dumps(known.get('schema', known))[:120]}"
    for (place, name), known in operation.parameters.items():
        if place == "query" and known.get("required") and name not in call["params"]:
            yield f"misses {name}"


def _fits(text: str, schema: Json, whole: Json) -> bool:
    """Whether the text of a parameter is of its type; lists may be given with commas."""
    schema = _followed(whole, schema)
    kind = schema.get("type")
    if kind == "array":
        return all(_fits(one, schema.get("items", {}), whole) for one in text.split(","))
    if "enum" in schema and text not in map(str, schema["enum"]):
        return False
    if kind == "integer":
        return text.lstrip("-").isdigit() and int(text) <= schema.get("maximum", int(text))
    return kind != "boolean" or text in ("true", "false")


def _sent(call: Json, operation: Operation) -> Iterator[str]:
    if call["body"] is None:
        return
    if operation.body is None:
        yield "takes no body"
        return
    schema = {**operation.body, "components": operation.whole.get("components", {})}
    validator = cast(Any, jsonschema.Draft202012Validator(schema))
    for error in validator.iter_errors(call["body"]):
        yield f"body: {error.message[:120]}"


def main() -> None:
    """Compare, and tell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("calls", type=Path)
    parser.add_argument("kind")
    parser.add_argument("description", type=Path, nargs="+")
    parser.add_argument(
        "--but", action="append", default=[], metavar="PATH", help="paths that begin so are left out"
    )
    asked = parser.parse_args()
    operations = [one for path in asked.description for one in described(path)]
    seen: Counter[str] = Counter()
    wrong: Counter[tuple[str, str]] = Counter()
    for file in sorted(asked.calls.glob(f"{asked.kind}-*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            call = json.loads(line)
            if any(prefix in call["path"] for prefix in asked.but):
                continue
            name, faults = conforms(call, operations)
            seen[name] += 1
            wrong.update((name, fault) for fault in faults)
    for name, count in sorted(seen.items()):
        print(f"{count:7,}  {name}")
    for (name, fault), count in sorted(wrong.items()):
        print(f"does not conform ({count:,} times): {name}: {fault}")
    print(f"{asked.kind}: {sum(seen.values()):,} requests to {len(seen)} paths, {len(wrong)} kinds of faults")
    sys.exit(bool(wrong) or not seen)


if __name__ == "__main__":
    main()
