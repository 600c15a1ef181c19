"""Checks requests of connectors against OpenAPI descriptions: `uv run --group bench python -m bench.conformity CALLS KIND DESCRIPTION…`.

Compares requests that connectors made with a tool's published OpenAPI description (JSON or YAML, version 2 or 3; it is not
part of this project): the path exists, each parameter is known and has its type, no required parameter is missing, and the
body matches its schema. `CALLS` is a folder that the tests fill:

    mkdir calls && RECORD_CALLS=$PWD/calls uv run pytest tests/connectors
    uv run --group bench python -m bench.conformity calls jira swagger-v3.v3.json
    uv run --group bench python -m bench.conformity calls github api.github.com.json --but /graphql --but /repositories/

Prints the number of requests for each path, and the paths that no description has. The exit code is 1 when a request does
not conform. `--but` excludes paths that are described elsewhere, or that the tool itself linked to. `jiradatacenter` and
`confluencedatacenter` are recorded separately: they have no such description.
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
# Prefixes that a tool's URL may have before the paths of its description.
_PREFIXES = ("", "/api/v3", "/wiki/api/v2", "/wiki", "/api/v4")


@dataclass(frozen=True)
class Operation:
    """One method of one path in a description."""

    pattern: re.Pattern[str]
    method: str
    template: str
    parameters: Mapping[tuple[str, str], Json]
    body: Json | None
    description: Json  # resolves references

    @property
    def weight(self) -> int:
        """The number of placeholders: paths with fewer are matched first, as tools route them."""
        return self.template.count("{")


def load_operations(path: Path) -> list[Operation]:
    """Load all operations of a description."""
    text = path.read_text(encoding="utf-8")
    description = cast(Json, json.loads(text) if path.suffix == ".json" else yaml.safe_load(text))
    operations: list[Operation] = []
    for template, entry in description["paths"].items():
        shared = [_resolve_reference(description, parameter) for parameter in entry.get("parameters", [])]
        for method in _METHODS:
            if method not in entry:
                continue
            own_parameters = [
                _resolve_reference(description, parameter)
                for parameter in entry[method].get("parameters", [])
            ]
            parameters = {
                (parameter["in"], parameter["name"]): parameter for parameter in (*shared, *own_parameters)
            }
            pattern = re.compile(re.sub(r"\\\{[^}]*\\\}", "[^/]+", re.escape(template)))
            operations.append(
                Operation(
                    pattern,
                    method,
                    template,
                    parameters,
                    _body_schema(description, entry[method], own_parameters),
                    description,
                )
            )
    return sorted(operations, key=lambda operation: operation.weight)


def _body_schema(description: Json, operation: Json, parameters: Sequence[Json]) -> Json | None:
    content = _resolve_reference(description, operation.get("requestBody", {})).get("content", {})
    if "application/json" in content:
        return content["application/json"].get("schema")
    return next((parameter.get("schema") for parameter in parameters if parameter["in"] == "body"), None)


def _resolve_reference(description: Json, entry: Json) -> Json:
    while "$ref" in entry:
        target: Any = description
        for part in entry["$ref"].removeprefix("#/").split("/"):
            target = target[part.replace("~1", "/").replace("~0", "~")]
        entry = target
    return entry


def check_call(call: Json, operations: Sequence[Operation]) -> tuple[str, list[str]]:
    """The operation that a request calls, and its faults."""
    path, method = str(urlsplit(str(call["path"])).path), call["method"].lower()
    for operation in operations:
        for prefix in _PREFIXES:
            if operation.method == method and operation.pattern.fullmatch(path.removeprefix(prefix)):
                name = f"{call['method']} {operation.template}"
                return name, [*_parameter_faults(call, operation), *_body_faults(call, operation)]
    return f"{call['method']} {re.sub(r'[0-9]+', '1', path)}", ["no such path"]


def _parameter_faults(call: Json, operation: Operation) -> Iterator[str]:
    for name, text in call["params"].items():
        parameter = operation.parameters.get(("query", name)) or operation.parameters.get(
            ("query", f"{name}[]")
        )
        if parameter is None:
            yield f"unknown parameter {name}"
        elif not _matches_type(text, parameter.get("schema", parameter), operation.description):
            yield f"{name}={text!r} is not {json.dumps(parameter.get('schema', parameter))[:120]}"
    for (location, name), parameter in operation.parameters.items():
        if location == "query" and parameter.get("required") and name not in call["params"]:
            yield f"missing {name}"


def _matches_type(text: str, schema: Json, description: Json) -> bool:
    """Whether the text of a parameter has its type; lists may be separated by commas."""
    schema = _resolve_reference(description, schema)
    kind = schema.get("type")
    if kind == "array":
        return all(_matches_type(part, schema.get("items", {}), description) for part in text.split(","))
    if "enum" in schema and text not in map(str, schema["enum"]):
        return False
    if kind == "integer":
        return text.lstrip("-").isdigit() and int(text) <= schema.get("maximum", int(text))
    return kind != "boolean" or text in ("true", "false")


def _body_faults(call: Json, operation: Operation) -> Iterator[str]:
    if call["body"] is None:
        return
    if operation.body is None:
        yield "takes no body"
        return
    schema = {**operation.body, "components": operation.description.get("components", {})}
    validator = cast(Any, jsonschema.Draft202012Validator(schema))
    for error in validator.iter_errors(call["body"]):
        yield f"body: {error.message[:120]}"


def main() -> None:
    """Compare, and print the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("calls", type=Path)
    parser.add_argument("kind")
    parser.add_argument("description", type=Path, nargs="+")
    parser.add_argument(
        "--but", action="append", default=[], metavar="PATH", help="exclude paths that contain this"
    )
    options = parser.parse_args()
    operations = [operation for path in options.description for operation in load_operations(path)]
    request_counts: Counter[str] = Counter()
    fault_counts: Counter[tuple[str, str]] = Counter()
    for file in sorted(options.calls.glob(f"{options.kind}-*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            call = json.loads(line)
            if any(prefix in call["path"] for prefix in options.but):
                continue
            name, faults = check_call(call, operations)
            request_counts[name] += 1
            fault_counts.update((name, fault) for fault in faults)
    for name, count in sorted(request_counts.items()):
        print(f"{count:7,}  {name}")
    for (name, fault), count in sorted(fault_counts.items()):
        print(f"does not conform ({count:,} times): {name}: {fault}")
    print(
        f"{options.kind}: {sum(request_counts.values()):,} requests to {len(request_counts)} paths, {len(fault_counts)} kinds of faults"
    )
    sys.exit(bool(fault_counts) or not request_counts)


if __name__ == "__main__":
    main()
