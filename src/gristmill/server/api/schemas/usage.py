"""What was spent, and the budgets and quotas that limit it."""

from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Literal, Self
from uuid import UUID

from pydantic import Field

from gristmill import usage
from gristmill.errors import FieldError, Invalid
from gristmill.server.api.schemas.common import ApiModel, RequestModel
from gristmill.usage import LimitStatus, NewLimit, UsageRow

Amount = Annotated[float, Field(ge=0, le=1e15, allow_inf_nan=False)]
_BUDGET_MEASURES, _QUOTA_MEASURES = ("chunks", "tokens", "money"), ("items", "bytes", "chunks")


class UsageOut(ApiModel):
    """What was spent on a day, for a base, by a caller, for a kind of work. `baseName` is null for a deleted base; `callerName` is
    the name of a key."""

    day: date
    base_id: UUID
    base_name: str | None
    caller: str
    caller_name: str | None
    kind: usage.UsageKind
    model: str
    texts: int
    tokens: int
    cost: float

    @classmethod
    def of(cls, row: UsageRow) -> Self:
        """Show `row`."""
        return cls.model_validate(vars(row))


class UsageTotals(ApiModel):
    """The sum of the rows: embedded texts and their tokens, and the cost of everything."""

    texts: int
    tokens: int
    cost: float


class UsageReport(ApiModel):
    """What an organisation has spent, and the sum."""

    items: list[UsageOut]
    totals: UsageTotals
    next_cursor: None = None

    @classmethod
    def of(cls, rows: list[UsageRow]) -> Self:
        """Show `rows` with their sum."""
        embedded = [row for row in rows if row.kind not in ("vision", "chat", "query")]
        totals = UsageTotals(
            texts=sum(row.texts for row in embedded),
            tokens=sum(row.tokens for row in embedded),
            cost=float(sum(row.cost for row in rows)),
        )
        return cls(items=[UsageOut.of(row) for row in rows], totals=totals)


class NewLimitIn(RequestModel):
    """A budget or a quota; without `baseId`, of the whole organisation."""

    kind: Literal["budget", "quota"]
    measure: Literal["chunks", "tokens", "money", "items", "bytes"]
    period: Literal["month", "total"] | None = None
    amount: Amount
    base_id: UUID | None = None

    def to_limit(self) -> NewLimit:
        """The limit, if its measure and period fit its kind."""
        measures = _BUDGET_MEASURES if self.kind == "budget" else _QUOTA_MEASURES
        if self.measure not in measures:
            words = f"{', '.join(measures[:-1])} or {measures[-1]}"
            raise Invalid(
                f"A {self.kind} can't limit {self.measure}. Choose {words}.",
                fields=[FieldError("measure", f"must be {words}")],
            )
        if self.kind == "quota" and self.period == "month":
            raise Invalid(
                "A quota limits what is stored, not what is added in a month. Leave the period out, or set a budget.",
                fields=[FieldError("period", "must be total for a quota")],
            )
        period = self.period or ("month" if self.kind == "budget" else "total")
        return NewLimit(self.kind, self.measure, period, Decimal(str(self.amount)), self.base_id)


class LimitChange(RequestModel):
    """Another amount of a limit."""

    amount: Amount

    def to_decimal(self) -> Decimal:
        """The amount as it is stored."""
        return Decimal(str(self.amount))


class LimitOut(ApiModel):
    """A limit, and what is used of it. `reserved` is what workers are about to spend; `endsAt` is the end of the month."""

    id: UUID
    base_id: UUID | None
    base_name: str | None
    kind: usage.LimitKind
    measure: usage.Measure
    period: usage.Period
    amount: float
    used: float
    reserved: float
    used_up: bool
    ends_at: datetime | None
    created_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, limit: LimitStatus) -> Self:
        """Show `limit`."""
        return cls.model_validate({**vars(limit), "used_up": limit.used >= limit.amount})
