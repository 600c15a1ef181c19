"""The one place that decides: may this caller have this route, for what its path names?

    no row in the rules                                  403 not_decided
    no caller, and the row wants one                     401 no_key
    a role that is too low                               403 role_too_low
    on somebody's behalf, and not an admin, or no `eyes` 403
    the path names something of another organisation,    404, as for what never was
    or, where lists don't apply by themselves, hidden
    an editor who does not see the whole base            403 partly_hidden

It runs before the body is looked at. A path parameter that it does not know is refused, so that a new kind of thing can't be
reached before it was said whose it is.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import cast

from fastapi import Request

from gristmill import catalog, identity, jobs
from gristmill.catalog import BaseId
from gristmill.connectors import admin
from gristmill.db import Tx
from gristmill.errors import Forbidden, NotFound
from gristmill.events import webhook_store
from gristmill.operations import guards
from gristmill.organisation import LOCAL_ORG
from gristmill.server.api import caller as callers
from gristmill.server.api.access_rules import RULES, Rule, route_path
from gristmill.server.api.caller import Caller
from gristmill.server.api.context import (
    ON_BEHALF,
    ApiContext,
    missing_key_error,
    parse_base_id,
    parse_connector_id,
    parse_item_id,
    parse_job_id,
    parse_key_id,
    parse_run_id,
    parse_webhook_id,
)


async def authorise(request: Request) -> None:
    """Let the request through to its route, or refuse it."""
    rule = RULES.get((request.method, route_path(request.scope)))
    if rule is None:
        raise Forbidden("Nobody has decided who may ask for this.", code="not_decided")
    caller = callers.current_caller(request.scope)
    if rule.audience == "anyone":
        return
    if caller is None:
        raise missing_key_error()
    if request.headers.get(ON_BEHALF) is not None:
        _check_on_behalf(caller, rule)
    _check_role(caller, rule)
    if not rule.acl_filtered or rule.audience == "admin":
        await _check_path_parameters(cast(ApiContext, request.app.state.context), caller, request.path_params)


def _check_on_behalf(caller: Caller, rule: Rule) -> None:
    if not rule.acl_filtered:
        raise Forbidden(f"With {ON_BEHALF}, only reading and searching are served.", code="not_on_behalf")
    if caller.role != "admin":
        raise Forbidden(f"Only an admin's key may use {ON_BEHALF}.", code="role_too_low")


def _check_role(caller: Caller, rule: Rule) -> None:
    if rule.audience == "anyone":
        return
    if rule.audience == "operator":
        if caller.role != "admin" or caller.org != LOCAL_ORG:
            raise Forbidden(
                "This is about the machine: it takes an admin's key of the local organisation.",
                code="operator_only",
            )
        return
    if not caller.is_at_least(rule.audience):
        raise Forbidden(
            f"This takes a key with the role {rule.audience}; yours is {caller.role}.", code="role_too_low"
        )


# ── what a path names ────────────────────────────────────────────────────────────────────────────────────


async def _check_base(tx: Tx, caller: Caller, text: str) -> None:
    await _check_sees_whole_base(
        tx, caller, (await guards.require_base(tx, await parse_base_id(text), caller.viewer)).id
    )


async def _check_item(tx: Tx, caller: Caller, text: str) -> None:
    item = await guards.require_item(tx, await parse_item_id(text), caller.viewer)
    await _check_sees_whole_base(tx, caller, item.base_id)


async def _check_sees_whole_base(tx: Tx, caller: Caller, base_id: BaseId) -> None:
    """Who changes a base must see all of it: what stands beside, above and below would change with it."""
    if not caller.viewer.is_admin and await catalog.has_hidden_items(tx, base_id, caller.viewer):
        raise Forbidden(
            "Something in this base is not for your eyes, so that you can't change it. Ask an admin.",
            code="partly_hidden",
        )


async def _check_job(tx: Tx, caller: Caller, text: str) -> None:
    job = await jobs.find_job(tx, await parse_job_id(text))
    if job is None or await jobs.lane_owner(tx, job.lane) != caller.org:
        raise NotFound(f"There is no job {text!r}.", code="job_not_found")


async def _check_webhook(tx: Tx, caller: Caller, text: str) -> None:
    if await webhook_store.find(tx, await parse_webhook_id(text), caller.org) is None:
        raise NotFound(f"There is no webhook {text!r}.", code="webhook_not_found")


async def _check_connector(tx: Tx, caller: Caller, text: str) -> None:
    connector = await admin.find_connector(tx, await parse_connector_id(text))
    if connector is None or connector.org_id != caller.org:
        raise NotFound(f"There is no connector {text!r}.", code="connector_not_found")


async def _check_run(tx: Tx, caller: Caller, text: str) -> None:
    run = await admin.find_run(tx, await parse_run_id(text))
    if run is None or (await admin.require_connector(tx, run.connector_id)).org_id != caller.org:
        raise NotFound(f"There is no run {text!r}.", code="run_not_found")


async def _check_key(tx: Tx, caller: Caller, text: str) -> None:
    if await identity.find_key(tx, caller.org, await parse_key_id(text)) is None:
        raise NotFound(f"There is no key {text!r}.", code="key_not_found")


async def _check_nothing(_tx: Tx, _caller: Caller, _text: str) -> None:
    """A part of what another parameter of the path names."""


PATH_PARAMETER_CHECKS: Mapping[str, Callable[[Tx, Caller, str], Awaitable[None]]] = {
    "base_id": _check_base,
    "item_id": _check_item,
    "job_id": _check_job,
    "webhook_id": _check_webhook,
    "connector_id": _check_connector,
    "run_id": _check_run,
    "key_id": _check_key,
    "event_id": _check_nothing,
    "asset_hash": _check_nothing,
    "user_id": _check_nothing,
}


async def _check_path_parameters(context: ApiContext, caller: Caller, parameters: Mapping[str, str]) -> None:
    if not parameters:
        return
    async with context.db.connection() as tx:
        for name, text in parameters.items():
            if name not in PATH_PARAMETER_CHECKS:
                raise Forbidden("Nobody has decided whose this is.", code="not_decided")
            await PATH_PARAMETER_CHECKS[name](tx, caller, text)
