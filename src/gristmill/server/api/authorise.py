"""The one place that decides whether a caller may use a route with the resources that its path names.

    the route has no access rule                               403 not_decided
    the rule requires a caller, and there is none              401 no_key
    the caller's role is too low, in the base of the path if   403 role_too_low, operator_only
    the rule has a `base_role`
    on behalf of a person, but the caller is not an admin,     403 role_too_low
    or the route is not filtered by access lists               403 not_on_behalf
    the path names a resource of another organisation, or one  404, the same as for an unknown id
    that the caller can't see and the route does not filter
    an editor who can't see every item of the base             403 partly_hidden

This runs before the body is read: in the middleware, by the path of the request. FastAPI reads the body before it calls any
dependency, so the dependency only checks that the decision was made for the route that is called. An unknown path
parameter is rejected, so that a new kind of resource can't be reached before a check of its owner exists.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import cast

from fastapi import Request
from starlette.datastructures import Headers
from starlette.types import Scope

from gristmill import catalog, files, identity, jobs, usage
from gristmill.catalog import BaseId, shares
from gristmill.catalog.shares import BASE_ROLES, BaseRole
from gristmill.connectors import admin
from gristmill.db import Database, Tx
from gristmill.errors import Forbidden, NotFound
from gristmill.events import webhook_store
from gristmill.identity import LOCAL_ORG, ROLES
from gristmill.operations import guards
from gristmill.server.api import caller as callers
from gristmill.server.api.access_rules import RULES, Rule, RuleMatch, find_rule, route_path
from gristmill.server.api.caller import Caller
from gristmill.server.api.context import (
    ON_BEHALF,
    ApiContext,
    missing_key_error,
    parse_base_id,
    parse_connector_id,
    parse_group_id,
    parse_item_id,
    parse_job_id,
    parse_key_id,
    parse_limit_id,
    parse_run_id,
    parse_user_id,
    parse_webhook_id,
)
from gristmill.server.api.store_ids import no_such_file, parse_file_id, parse_store_id

_AUTHORISED = "authorised"  # in the state of a request: the rule that was decided on


class Authoriser:
    """Decides before a route is looked up and before anything of the body is read."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def __call__(self, caller: Caller | None, scope: Scope) -> None:
        """Raise unless the caller may make this request. A path that no rule has is left to the router, which refuses it."""
        match = find_rule(scope["method"], scope["path"])
        if match is not None:
            await _authorise(self._db, caller, match.rule, Headers(scope=scope), match.parameters)
            scope.setdefault("state", {})[_AUTHORISED] = match


def authorised_route(scope: Scope) -> RuleMatch | None:
    """The route that the caller may use, as `Authoriser` decided; None if it decided nothing."""
    return scope.get("state", {}).get(_AUTHORISED)


async def require_authorisation(request: Request) -> None:
    """Raise unless the caller may use the route that the router chose. If it chose another one than `Authoriser` expected,
    the decision is made again."""
    template = route_path(request.scope)
    rule = RULES.get((request.method, template))
    if rule is None:
        raise Forbidden(
            "This route has no access rule, which is a bug. Please report it.", code="not_decided"
        )
    authorised = authorised_route(request.scope)
    if authorised is None or authorised.template != template:
        caller = callers.current_caller(request.scope)
        context = cast(ApiContext, request.app.state.context)
        await _authorise(context.db, caller, rule, request.headers, request.path_params)


async def _authorise(
    db: Database, caller: Caller | None, rule: Rule, headers: Headers, parameters: Mapping[str, str]
) -> None:
    if rule.audience == "anyone":
        return
    if caller is None:
        raise missing_key_error()
    if headers.get(ON_BEHALF) is not None:
        _check_on_behalf(caller, rule)
    if rule.base_role is None:
        _check_role(caller, rule)
    elif caller.role not in ROLES:
        raise _role_error(caller, "reader")
    if not rule.acl_filtered or rule.audience == "admin":
        await _check_path_parameters(db, caller, parameters, rule.base_role or "editor")


def _check_on_behalf(caller: Caller, rule: Rule) -> None:
    if not rule.acl_filtered:
        raise Forbidden(
            f"This request can't be made on behalf of a person: {ON_BEHALF} works for reading and searching only. "
            "Send the request without it.",
            code="not_on_behalf",
        )
    if caller.role != "admin":
        raise Forbidden(
            f"Only admins can use {ON_BEHALF}. Use an admin's key, or send the request without it.",
            code="role_too_low",
        )


def _check_role(caller: Caller, rule: Rule) -> None:
    if rule.audience == "anyone":
        return
    if rule.audience == "operator":
        if caller.role != "admin" or caller.org != LOCAL_ORG:
            raise Forbidden(
                "This request concerns the whole installation. Use an admin's key of the local organisation.",
                code="operator_only",
            )
        return
    if rule.audience == "scim":
        if caller.role not in ("scim", "admin"):
            raise Forbidden(
                f"Your key has the role {caller.role}. Use a key with the role scim.", code="role_too_low"
            )
        return
    if not caller.is_at_least(rule.audience):
        raise _role_error(caller, rule.audience)


def _role_error(caller: Caller, needed: str) -> Forbidden:
    who = "Your key has" if caller.key is not None else "You have"
    how = f"Use a key with the role {needed}." if caller.key is not None else "Ask an admin."
    return Forbidden(f"{who} the role {caller.role}, which can't do this. {how}", code="role_too_low")


# ── the resources that a path names ──────────────────────────────────────────────────────────────────────


async def _check_base(tx: Tx, caller: Caller, text: str, needed: BaseRole) -> None:
    base = await guards.require_base(tx, await parse_base_id(text), caller.viewer)
    await check_may_change_base(tx, caller, base.id, needed)


async def _check_item(tx: Tx, caller: Caller, text: str, needed: BaseRole) -> None:
    item = await guards.require_item(tx, await parse_item_id(text), caller.viewer)
    await check_may_change_base(tx, caller, item.base_id, needed)


async def check_may_change_base(tx: Tx, caller: Caller, base_id: BaseId, needed: BaseRole = "editor") -> None:
    """Raise unless the caller has this role in the base, and sees every item of it: a change also affects items around, above and
    below it."""
    if caller.viewer.is_admin:
        return
    own = "editor" if caller.role == "editor" else "reader"
    role = await shares.base_role(tx, base_id, caller.viewer, own)
    if BASE_ROLES.index(role) < BASE_ROLES.index(needed):
        raise Forbidden(
            f"You are {_WITH_ARTICLE[role]} of this base, which can't do this. Ask an owner of the base, or an admin, "
            f"to make you {_WITH_ARTICLE[needed]}.",
            code="role_too_low",
        )
    if await catalog.has_hidden_items(tx, base_id, caller.viewer):
        raise Forbidden(
            "You can't change this base: it contains items you can't see. Ask an admin to change it, or to give you access.",
            code="partly_hidden",
        )


_WITH_ARTICLE = {"reader": "a reader", "editor": "an editor", "owner": "an owner"}


async def _check_job(tx: Tx, caller: Caller, text: str, _needed: BaseRole) -> None:
    job = await jobs.find_job(tx, await parse_job_id(text))
    if job is None or await jobs.lane_owner(tx, job.lane) != caller.org:
        raise NotFound(f"There is no job {text!r}.", code="job_not_found")


async def _check_webhook(tx: Tx, caller: Caller, text: str, _needed: BaseRole) -> None:
    if await webhook_store.find(tx, await parse_webhook_id(text), caller.org) is None:
        raise NotFound(f"There is no webhook {text!r}.", code="webhook_not_found")


async def _check_connector(tx: Tx, caller: Caller, text: str, _needed: BaseRole) -> None:
    connector = await admin.find_connector(tx, await parse_connector_id(text))
    if connector is None or connector.org_id != caller.org:
        raise NotFound(f"There is no connector {text!r}.", code="connector_not_found")


async def _check_run(tx: Tx, caller: Caller, text: str, _needed: BaseRole) -> None:
    run = await admin.find_run(tx, await parse_run_id(text))
    if run is None or (await admin.require_connector(tx, run.connector_id)).org_id != caller.org:
        raise NotFound(f"There is no run {text!r}.", code="run_not_found")


async def _check_key(tx: Tx, caller: Caller, text: str, _needed: BaseRole) -> None:
    if await identity.find_key(tx, caller.org, await parse_key_id(text)) is None:
        raise NotFound(f"There is no key {text!r}.", code="key_not_found")


async def _check_limit(tx: Tx, caller: Caller, text: str, _needed: BaseRole) -> None:
    if not await usage.find_limits(tx, caller.org, limit_id=await parse_limit_id(text)):
        raise NotFound(f"There is no limit {text!r}.", code="limit_not_found")


async def _check_user(tx: Tx, caller: Caller, text: str, _needed: BaseRole) -> None:
    await identity.users.require_user(tx, caller.org, await parse_user_id(text))


async def _check_group(tx: Tx, caller: Caller, text: str, _needed: BaseRole) -> None:
    await identity.groups.require_group(tx, caller.org, await parse_group_id(text))


async def _check_store(tx: Tx, caller: Caller, text: str, needed: BaseRole) -> None:
    await _check_base(tx, caller, str(parse_store_id(text)), needed)


async def _check_file(tx: Tx, caller: Caller, text: str, needed: BaseRole) -> None:
    """A file is changed in every base that it is in."""
    file_id = parse_file_id(text)
    if await files.find_file(tx, file_id, caller.viewer) is None:
        raise no_such_file(file_id)
    bases = {item.base_id for item in await files.items_of_file(tx, file_id, caller.org)}
    for base_id in bases:
        await check_may_change_base(tx, caller, base_id, needed)


async def _check_nothing(_tx: Tx, _caller: Caller, _text: str, _needed: BaseRole) -> None:
    """For parameters that belong to a resource that another parameter names, and for names and ids that are looked up among
    those of the caller or its organisation."""


PATH_PARAMETER_CHECKS: Mapping[str, Callable[[Tx, Caller, str, BaseRole], Awaitable[None]]] = {
    "base_id": _check_base,
    "item_id": _check_item,
    "job_id": _check_job,
    "webhook_id": _check_webhook,
    "connector_id": _check_connector,
    "run_id": _check_run,
    "key_id": _check_key,
    "account_id": _check_user,
    "group_id": _check_group,
    "scim_user_id": _check_user,
    "scim_group_id": _check_group,
    "store_id": _check_store,
    "file_id": _check_file,
    "store_file_id": _check_nothing,
    "batch_id": _check_nothing,
    "event_id": _check_nothing,
    "asset_hash": _check_nothing,
    "chunk_id": _check_nothing,
    "user_id": _check_nothing,
    "embedder_name": _check_nothing,
    "search_id": _check_nothing,
    "limit_id": _check_limit,
    "exclusion_id": _check_nothing,
    "hold_id": _check_nothing,
    "version": _check_nothing,
    "page": _check_nothing,
    "member_id": _check_nothing,
}


async def _check_path_parameters(
    db: Database, caller: Caller, parameters: Mapping[str, str], needed: BaseRole
) -> None:
    if not parameters:
        return
    async with db.connection() as tx:
        for name, text in parameters.items():
            if name not in PATH_PARAMETER_CHECKS:
                raise Forbidden(
                    f"The path parameter {name} has no access check, which is a bug. Please report it.",
                    code="not_decided",
                )
            await PATH_PARAMETER_CHECKS[name](tx, caller, text, needed)
