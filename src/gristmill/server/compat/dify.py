"""`/dify/retrieval`: Dify's External Knowledge API.

The endpoint to enter in Dify is `…/dify`, the knowledge id is a base's id or name, the key is one of ours. Dify sends no user, so
the key decides what is found. Dify writes most values as text; a value that reads as a number or as true or false is compared as
such too.
"""

from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, StrictStr, field_validator, model_validator

from gristmill import search
from gristmill.search import Comparison, Condition, ConditionGroup, Hit
from gristmill.search.conditions import Operator, Scalar
from gristmill.server.api.context import CurrentContext, CurrentViewer
from gristmill.server.api.router import ApiRouter
from gristmill.server.api.schemas.common import NonBlankText, require_storable
from gristmill.server.api.search_targets import answer_and_keep, find_targets
from gristmill.server.compat.find_base import find_named_base

router = ApiRouter("/dify", tag="Dify")

_MAX_CONDITIONS = 50
_TEXT: dict[str, Operator] = {
    "contains": "contains",
    "not contains": "not_contains",
    "start with": "starts_with",
    "end with": "ends_with",
}
_PRESENCE: dict[str, Operator] = {"empty": "is_empty", "not empty": "not_empty"}
_MEMBERS: dict[str, Operator] = {
    "is": "in",
    "is not": "nin",
    "in": "in",
    "not in": "nin",
    "=": "in",
    "≠": "nin",
}
_ORDER: dict[str, Operator] = {">": "gt", "<": "lt", "≥": "gte", "≤": "lte", "before": "lt", "after": "gt"}
_OPERATORS = frozenset({*_TEXT, *_PRESENCE, *_MEMBERS, *_ORDER})
_Single = Annotated[str, Field(max_length=10_000)] | int | float | bool


class DifyRequest(BaseModel):
    """Base of the parts of a request. Fields of other versions of Dify are ignored."""

    model_config = ConfigDict(extra="ignore")


class RetrievalSetting(DifyRequest):
    """How many records are wanted, and their lowest score."""

    top_k: Annotated[int, Field(ge=1, le=100)] = 10
    score_threshold: Annotated[float, Field(ge=0, le=1)] = 0.0


class DifyCondition(DifyRequest):
    """A condition on one entry of the metadata; older versions send a list of names, of which one has to match."""

    name: (
        Annotated[StrictStr, Field(min_length=1, max_length=1000)]
        | Annotated[
            list[Annotated[StrictStr, Field(min_length=1, max_length=1000)]],
            Field(min_length=1, max_length=20),
        ]
    )
    comparison_operator: str
    value: _Single | Annotated[list[_Single], Field(max_length=1000)] | None = None

    @field_validator("comparison_operator")
    @classmethod
    def _require_operator(cls, operator: str) -> str:
        if operator not in _OPERATORS:
            raise ValueError(f"must be one of: {', '.join(sorted(_OPERATORS))}")
        return operator

    @model_validator(mode="after")
    def _require_value(self) -> "DifyCondition":
        if self.comparison_operator not in _PRESENCE and self.value is None:
            raise ValueError(f"needs a value for {self.comparison_operator}")
        for part in (self.name, self.value):
            require_storable(part, "metadata_condition")
        return self

    def to_condition(self) -> Condition:
        """The condition as `search/` takes it."""
        names = [self.name] if isinstance(self.name, str) else self.name
        return ConditionGroup("or", tuple(self._of_key(name) for name in names))

    def _of_key(self, key: str) -> Condition:
        operator = self.comparison_operator
        if operator in _PRESENCE:
            return Comparison(key, _PRESENCE[operator])
        values = _values(self.value, is_list=operator in ("in", "not in"))
        if operator in _MEMBERS:
            readings = tuple(reading for value in values for reading in _readings(value))
            return Comparison(key, _MEMBERS[operator], readings)
        if operator in _TEXT:
            return Comparison(key, _TEXT[operator], str(values[0]))
        # A text is before or after another text, a number before or after a number: whichever the item has.
        readings = [reading for reading in _readings(values[0]) if not isinstance(reading, bool)]
        return ConditionGroup("or", tuple(Comparison(key, _ORDER[operator], reading) for reading in readings))


def _values(value: object, *, is_list: bool) -> list[Scalar]:
    if isinstance(value, list):
        return cast(list[Scalar], value) or [""]
    if is_list and isinstance(value, str):
        return [part.strip() for part in value.split(",")]
    return [cast(Scalar, value)]


def _readings(value: Scalar) -> list[Scalar]:
    """A value, and what it reads as."""
    if not isinstance(value, str):
        return [value] if isinstance(value, bool) else [value, str(value)]
    if value.lower() in ("true", "false"):
        return [value, value.lower() == "true"]
    try:
        number = float(value)
    except ValueError:
        return [value]
    return [value, number] if abs(number) < 1e308 else [value]


class MetadataCondition(DifyRequest):
    """Conditions of which all, or one, must hold."""

    logical_operator: Literal["and", "or"] = "and"
    conditions: Annotated[list[DifyCondition], Field(max_length=_MAX_CONDITIONS)] = []

    def to_condition(self) -> Condition | None:
        """The condition as `search/` takes it; None if there is none."""
        parts = tuple(condition.to_condition() for condition in self.conditions)
        return ConditionGroup(self.logical_operator, parts) if parts else None


class Retrieval(DifyRequest):
    """A search in a knowledge base."""

    knowledge_id: Annotated[StrictStr, Field(min_length=1, max_length=200)]
    query: Annotated[NonBlankText, Field(max_length=10_000)]
    retrieval_setting: RetrievalSetting = RetrievalSetting()
    metadata_condition: MetadataCondition | None = None


@router.post("/retrieval", include_in_schema=False)
async def retrieve(body: Retrieval, context: CurrentContext, viewer: CurrentViewer) -> dict[str, Any]:
    """Search a base for Dify."""
    base = await find_named_base(context.db, body.knowledge_id, viewer)
    condition = body.metadata_condition.to_condition() if body.metadata_condition else None
    request = search.SearchRequest(
        query=body.query,
        limit=body.retrieval_setting.top_k,
        filters=search.Filters(condition=condition),
        viewer=viewer,
        allow_partial=True,
    )
    answer = await answer_and_keep(context, await find_targets(context, viewer, [base.id]), request)
    threshold = body.retrieval_setting.score_threshold
    skipped = [skipped.message for skipped in answer.skipped]
    records = [_record(hit) for hit in answer.hits if hit.score >= threshold]
    return {"records": records, **({"skipped": skipped} if skipped else {})}


def _record(hit: Hit) -> dict[str, Any]:
    place: dict[str, Any] = {
        "itemId": str(hit.item_id),
        "version": hit.version,
        "page": hit.page,
        "url": hit.source.get("url"),
        "path": hit.source.get("path"),
    }
    metadata = {key: value for key, value in place.items() if value is not None} | hit.metadata
    return {"content": hit.text, "score": hit.score, "title": hit.title, "metadata": metadata}
