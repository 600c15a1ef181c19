"""Conditions on metadata in requests: comparisons, and groups of them."""

from typing import Annotated, Literal, Self

from pydantic import Field, StrictBool, StrictFloat, StrictInt, StrictStr, model_validator

from gristmill.search import Comparison, Condition, ConditionGroup
from gristmill.server.api.schemas.common import RequestModel

MAX_CONDITIONS = 100
_MAX_DEPTH = 10

ComparisonOperator = Literal["eq", "ne", "gt", "gte", "lt", "lte", "in", "nin"]
MetadataKey = Annotated[str, Field(min_length=1, max_length=1000)]
Number = StrictInt | Annotated[StrictFloat, Field(allow_inf_nan=False)]
Text = Annotated[StrictStr, Field(max_length=10_000)]
Value = StrictBool | Number | Text


def comparison(key: str, operator: ComparisonOperator, value: Value | list[Value]) -> Comparison:
    """A comparison of a request. Raises ValueError if its value is not one that the operator takes."""
    if operator in ("in", "nin"):
        if not isinstance(value, list):
            raise ValueError(f"must have a list as value for {operator}")
        return Comparison(key, operator, tuple(value))
    if isinstance(value, list):
        raise ValueError(f"must have one value for {operator}; use in or nin for a list")
    if isinstance(value, bool) and operator not in ("eq", "ne"):
        raise ValueError(f"can't compare true or false by {operator}; use eq or ne")
    return Comparison(key, operator, value)


class ConditionIn(RequestModel):
    """A comparison of one key (`op`, `key`, `value`), or a group: `and`, `or`. What is given must all hold."""

    op: ComparisonOperator | None = None
    key: MetadataKey | None = None
    value: Value | Annotated[list[Value], Field(max_length=1000)] | None = None
    all_of: Annotated[list["ConditionIn"], Field(max_length=MAX_CONDITIONS)] | None = Field(
        default=None, alias="and"
    )
    any_of: Annotated[list["ConditionIn"], Field(max_length=MAX_CONDITIONS)] | None = Field(
        default=None, alias="or"
    )

    @model_validator(mode="after")
    def _require_condition(self) -> Self:
        condition = self.to_condition()
        if condition is None and self.is_alone:
            raise ValueError("must have op, key and value, or and, or or")
        if condition is not None:
            check_size(condition)
        return self

    @property
    def is_alone(self) -> bool:
        """Whether a condition is all that it can have."""
        return True

    def to_condition(self) -> Condition | None:
        """The condition as `search/` takes it; None if nothing is given."""
        conditions: list[Condition] = []
        comparison_fields = (self.op, self.key, self.value)
        if any(part is not None for part in comparison_fields):
            if self.op is None or self.key is None or self.value is None:
                raise ValueError("must have op, key and value together")
            conditions.append(comparison(self.key, self.op, self.value))
        for operator, parts in (("and", self.all_of), ("or", self.any_of)):
            if parts is not None:
                group = tuple(filter(None, (part.to_condition() for part in parts)))
                conditions.append(ConditionGroup("and" if operator == "and" else "or", group))
        if len(conditions) > 1:
            return ConditionGroup("and", tuple(conditions))
        return conditions[0] if conditions else None


def check_size(condition: Condition) -> None:
    """Raise ValueError if there are too many conditions, or they are nested too deeply."""
    count, level = 0, [condition]
    for _ in range(_MAX_DEPTH):
        count += len(level)
        level = [part for group in level if isinstance(group, ConditionGroup) for part in group.conditions]
    if level:
        raise ValueError(f"must not be nested deeper than {_MAX_DEPTH} levels")
    if count > MAX_CONDITIONS:
        raise ValueError(f"must not have more than {MAX_CONDITIONS} conditions")
