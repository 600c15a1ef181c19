"""`--filter KEY=VALUE`: conditions on metadata, as they are typed.

year>=2020          a number, if it is one; true, false and null too
team=sales          text
tag=a,b             one of these
tag!=a,b            none of these
year="2020"         text in any case: in quotes
document.title=…    what the document says of itself
type=note           the type of the item, not metadata
"""

import json
import re
from collections.abc import Sequence
from typing import Any

from gristmill.errors import Invalid

_PATTERN = re.compile(r"(?P<key>[^=!<>]+?)\s*(?P<sign>!=|>=|<=|=|>|<)\s*(?P<value>.*)", re.DOTALL)
_OPERATORS = {"=": "eq", "!=": "ne", ">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}
_LIST_OPERATORS = {"eq": "in", "ne": "nin"}


def parse_filters(texts: Sequence[str]) -> dict[str, Any]:
    """The `filters` of a search; all of them must hold."""
    conditions: list[dict[str, Any]] = []
    types: list[str] = []
    for text in texts:
        match = _PATTERN.fullmatch(text.strip())
        if match is None:
            raise Invalid(
                f"--filter {text!r} is not a condition. Write KEY=VALUE, with =, !=, <, <=, > or >=.",
                code="bad_option",
            )
        key, operator, value = match["key"].strip(), _OPERATORS[match["sign"]], match["value"]
        if key == "type" and operator == "eq":
            types += value.split(",")
        elif "," in value and not value.startswith('"') and operator in _LIST_OPERATORS:
            values = [_parse_value(part) for part in value.split(",")]
            conditions.append({"op": _LIST_OPERATORS[operator], "key": key, "value": values})
        else:
            conditions.append({"op": operator, "key": key, "value": _parse_value(value)})
    filters: dict[str, Any] = {"types": types} if types else {}
    if conditions:
        filters |= conditions[0] if len(conditions) == 1 else {"and": conditions}
    return filters


def _parse_value(text: str) -> Any:
    """A number, boolean or quoted text of JSON; else the text itself."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, str | int | float | bool) else text
