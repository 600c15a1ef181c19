"""Budgets: what may be spent for a base or an organisation, in a month or in all. What exceeds one waits.

    reserve    before the call: the budgets are locked, and as many texts are granted as all of them have room for
    settle     in the transaction that writes the chunks: the reservation becomes usage (ledger.py)
    release    after a failure: the reservation is given back

So what is spent and what is reserved never exceed a budget, however many workers there are. A reservation counts while its job
has the lease that it was made with; that of a killed worker ends when its job is given to another. What a killed worker had sent
to the provider and not written is embedded again, so the provider may have seen its last batches twice.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from uuid import UUID, uuid4

from gristmill.db import Database, Tx
from gristmill.errors import LimitReached, Transient
from gristmill.identity import OrgId
from gristmill.usage.ledger import Spending, price_of_tokens
from gristmill.usage.store import queries

# A raised budget is noticed at once; this is for a change that coincides with the pause.
RECHECK = timedelta(minutes=1)
_CHAT_RETRY = timedelta(hours=1)
RETRY = timedelta(seconds=20)  # while other workers hold what is left


class BudgetUsedUp(Transient):
    """A budget has no room for the next text: the work waits, and goes on when the budget is raised or its period ends."""

    code = "budget_used_up"


class ChatBudgetUsedUp(LimitReached):
    """A budget of money is used up: the chat model is not asked."""

    code = "chat_budget_used_up"


@dataclass(frozen=True)
class SpendingBudget:
    """A budget, what was spent of it in its period, and what workers are about to spend."""

    id: UUID
    org_id: OrgId
    base_id: UUID | None
    base_name: str | None
    measure: str
    period: str
    amount: Decimal
    spent: Decimal
    reserved: Decimal
    ends_in: timedelta | None

    @property
    def is_used_up(self) -> bool:
        """Whether everything is spent."""
        return self.spent >= self.amount

    def covers(self, org: OrgId, base_id: UUID) -> bool:
        """Whether it limits this base."""
        return self.org_id == org and self.base_id in (None, base_id)

    @property
    def title(self) -> str:
        """Whose it is, and how much."""
        owner = "the organisation" if self.base_id is None else f"the base {self.base_name}"
        amount = f"{self.amount.normalize():,f}"
        period = "this month" if self.period == "month" else "in all"
        unit = "" if self.measure == "money" else f" {self.measure}"
        return f"{owner} ({amount}{unit} {period})"

    def wait(self) -> BudgetUsedUp:
        """The reason to wait for it, and for how long."""
        until = "when the budget is raised or the month ends" if self.ends_in else "when the budget is raised"
        delay = RECHECK if self.is_used_up else RETRY
        return BudgetUsedUp(
            f"Waiting: the budget of {self.title} is used up. Indexing continues {until}.",
            retry_after=delay
            if self.ends_in is None
            else min(delay, max(self.ends_in, timedelta(seconds=1))),
        )


@dataclass(frozen=True)
class SpendingRequest:
    """Texts that a job wants to embed for a base: their tokens, in the order in which they may be granted."""

    job_id: UUID
    lease: UUID
    org: OrgId
    base_id: UUID
    tokens: Sequence[int]


@dataclass(frozen=True)
class Grant:
    """How many of the texts may be embedded, the first ones; and why not the others."""

    count: int
    spending: Spending
    wait: BudgetUsedUp | None = None


class Budgets:
    """Reserves what is about to be spent."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def reserve(
        self, model: str, price: float | None, requests: Sequence[SpendingRequest]
    ) -> list[Grant]:
        """Grant as many texts of each request as the budgets have room for, and reserve them."""
        scope = _scope([(request.org, request.base_id) for request in requests])
        async with self._db.connection() as tx:
            if not await queries.many(tx, SpendingBudget, "budgets_left", **scope):
                return [_grant(model, price, request, len(request.tokens)) for request in requests]
        async with self._db.transaction() as tx:
            await queries.values(tx, "lock_budgets", **scope)
            budgets = await queries.many(tx, SpendingBudget, "budgets_left", **scope)
            grants = _share_out(model, price, requests, budgets)
            await self._insert(tx, requests, grants)
        return grants

    async def release(self, reservations: Sequence[UUID]) -> None:
        """Give back what was not spent; what was settled is left as it is."""
        if reservations:
            async with self._db.connection() as tx:
                await queries.run(tx, "delete_reservations", ids=list(reservations))

    async def _insert(self, tx: Tx, requests: Sequence[SpendingRequest], grants: Sequence[Grant]) -> None:
        scope = _scope([(request.org, request.base_id) for request in requests])
        await queries.run(tx, "delete_dead_reservations", **scope)
        reserved = [
            (request, grant.spending)
            for request, grant in zip(requests, grants, strict=True)
            if grant.spending.reservation is not None
        ]
        await queries.run(
            tx,
            "insert_reservations",
            ids=[spending.reservation for _, spending in reserved],
            orgs=[request.org for request, _ in reserved],
            bases=[request.base_id for request, _ in reserved],
            jobs=[request.job_id for request, _ in reserved],
            leases=[request.lease for request, _ in reserved],
            texts=[spending.texts for _, spending in reserved],
            tokens=[spending.tokens for _, spending in reserved],
            costs=[spending.cost for _, spending in reserved],
        )


async def waits_for_budgets(tx: Tx, bases: Sequence[tuple[OrgId, UUID]]) -> dict[UUID, BudgetUsedUp]:
    """The bases that have a budget which is used up, and the reason to wait."""
    if not bases:
        return {}
    budgets = await queries.many(tx, SpendingBudget, "budgets_left", **_scope(bases))
    used_up = [budget for budget in budgets if budget.is_used_up]
    waits: dict[UUID, BudgetUsedUp] = {}
    for org, base_id in bases:
        for budget in used_up:
            if budget.covers(org, base_id):
                waits.setdefault(base_id, budget.wait())
    return waits


async def require_chat_budget(tx: Tx, org: OrgId, base_id: UUID) -> None:
    """Raise ChatBudgetUsedUp if a budget of money of the base or its organisation is used up. Budgets of chunks and tokens are for
    embedding."""
    for budget in await queries.many(tx, SpendingBudget, "budgets_left", **_scope([(org, base_id)])):
        if budget.measure == "money" and budget.is_used_up:
            until = ", or wait until the month ends" if budget.ends_in else ""
            raise ChatBudgetUsedUp(
                f"The question is not answered: the budget of {budget.title} is used up. Search works as before. "
                f"Ask an admin to raise the budget{until}.",
                retry_after=min(budget.ends_in or _CHAT_RETRY, _CHAT_RETRY),
            )


def _share_out(
    model: str, price: float | None, requests: Sequence[SpendingRequest], budgets: Sequence[SpendingBudget]
) -> list[Grant]:
    left = {budget.id: budget.amount - budget.spent - budget.reserved for budget in budgets}
    grants: list[Grant] = []
    for request in requests:
        covering = [budget for budget in budgets if budget.covers(request.org, request.base_id)]
        count, wait = 0, None
        for tokens in request.tokens:
            needs = {budget.id: _need(budget, tokens, price) for budget in covering}
            short = [budget for budget in covering if left[budget.id] < needs[budget.id]]
            if short:
                wait = short[0].wait()
                break
            for budget_id, need in needs.items():
                left[budget_id] -= need
            count += 1
        reservation = uuid4() if covering and count else None
        grants.append(_grant(model, price, request, count, reservation, wait))
    return grants


def _need(budget: SpendingBudget, tokens: int, price: float | None) -> Decimal:
    if budget.measure == "chunks":
        return Decimal(1)
    return Decimal(tokens) if budget.measure == "tokens" else price_of_tokens(tokens, price)


def _grant(
    model: str,
    price: float | None,
    request: SpendingRequest,
    count: int,
    reservation: UUID | None = None,
    wait: BudgetUsedUp | None = None,
) -> Grant:
    tokens = sum(request.tokens[:count])
    spending = Spending(model, count, tokens, price_of_tokens(tokens, price), reservation)
    return Grant(count, spending, wait)


def _scope(bases: Sequence[tuple[OrgId, UUID]]) -> dict[str, list[UUID]]:
    return {"bases": list({base for _, base in bases}), "orgs": list({org for org, _ in bases})}
