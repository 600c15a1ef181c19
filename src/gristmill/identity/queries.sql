-- name: find_organisation
-- The organisation of a name, in any case.
select id, name, created_at from organisation where lower(name) = lower(%(name)s);

-- name: ensure_organisation
-- Creates an organisation, unless one of that name exists.
insert into organisation (name) values (%(name)s) on conflict do nothing;

-- name: list_organisations
-- All organisations.
select id, name, created_at from organisation order by id;

-- name: insert_key
-- Creates a key.
insert into api_key (org_id, name, prefix, hash, role, user_id, email, teams, groups, expires_at)
values (%(org)s, %(name)s, %(prefix)s, %(hash)s, %(role)s, %(user_id)s, %(email)s, %(teams)s::text[],
        %(groups)s::text[], %(expires_at)s)
returning id, org_id, name, prefix, role, user_id, email, teams, groups, expires_at, last_used_at, created_at, updated_at;

-- name: change_key
-- Changes all of a key but its secret.
update api_key
   set name = %(name)s, role = %(role)s, user_id = %(user_id)s, email = %(email)s, teams = %(teams)s::text[], groups = %(groups)s::text[],
       expires_at = %(expires_at)s, updated_at = clock_now()
 where id = %(id)s and org_id = %(org)s
returning id, org_id, name, prefix, role, user_id, email, teams, groups, expires_at, last_used_at, created_at, updated_at;

-- name: find_key
-- One key.
select id, org_id, name, prefix, role, user_id, email, teams, groups, expires_at, last_used_at, created_at, updated_at
  from api_key where id = %(id)s and org_id = %(org)s;

-- name: lock_key
-- One key, locked until the transaction ends.
select id, org_id, name, prefix, role, user_id, email, teams, groups, expires_at, last_used_at, created_at, updated_at
  from api_key where id = %(id)s and org_id = %(org)s for no key update;

-- name: list_keys
-- Keys of an organisation, oldest first, after a cursor.
select id, org_id, name, prefix, role, user_id, email, teams, groups, expires_at, last_used_at, created_at, updated_at
  from api_key where org_id = %(org)s and (%(after)s::uuid is null or id > %(after)s) order by id limit %(limit)s;

-- name: delete_key
-- Revokes a key and, by foreign key, its sessions.
delete from api_key where id = %(id)s and org_id = %(org)s returning id;

-- name: find_key_by_hash
-- The key of a secret, unless it has expired, with the groups of tools that contain its address.
-- Null if there are none in its organisation, or it needs none. Its last use is recorded at most once a minute, to keep reads cheap.
with found as materialized (
    select id, org_id, name, prefix, role, user_id, email, teams, groups, expires_at, last_used_at, created_at, updated_at
      from api_key where hash = %(hash)s and (expires_at is null or expires_at > clock_now())
       and (user_id is null or exists (select from user_account u where u.id = user_id and u.active))),
touched as (
    update api_key k set last_used_at = clock_now() from found
     where k.id = found.id and (k.last_used_at is null or k.last_used_at < clock_now() - interval '1 minute'))
select f.*, case when f.email is not null and f.user_id is null and f.role in ('reader', 'editor')
                      and exists (select from connector_group g where g.org_id = f.org_id)
                 then array(select t.id::text from tool_groups_of(f.org_id, lower(f.email)) t) end as tool_groups
  from found f;

-- name: find_key_by_session
-- The key that opened a session, unless either has expired; all as above.
with found as materialized (
    select k.id, k.org_id, k.name, k.prefix, k.role, k.user_id, k.email, k.teams, k.groups, k.expires_at, k.last_used_at, k.created_at,
           k.updated_at
      from session s join api_key k on k.id = s.key_id
     where s.hash = %(hash)s and s.expires_at > clock_now() and s.last_used_at > clock_now() - %(idle)s::interval
       and (k.user_id is null or exists (select from user_account u where u.id = k.user_id and u.active))
       and (k.expires_at is null or k.expires_at > clock_now())),
used as (
    update session s set last_used_at = clock_now() from found
     where s.hash = %(hash)s and s.last_used_at < clock_now() - interval '1 minute'),
touched as (
    update api_key k set last_used_at = clock_now() from found
     where k.id = found.id and (k.last_used_at is null or k.last_used_at < clock_now() - interval '1 minute'))
select f.*, case when f.email is not null and f.user_id is null and f.role in ('reader', 'editor')
                      and exists (select from connector_group g where g.org_id = f.org_id)
                 then array(select t.id::text from tool_groups_of(f.org_id, lower(f.email)) t) end as tool_groups
  from found f;

-- name: has_admin_key
-- Whether an admin key exists that has not expired.
select exists (select from api_key where role = 'admin' and (expires_at is null or expires_at > clock_now()));

-- name: list_user_keys
-- Keys of a user, oldest first, after a cursor; all of them without a limit.
select id, org_id, name, prefix, role, user_id, email, teams, groups, expires_at, last_used_at, created_at, updated_at
  from api_key where user_id = %(user)s and (%(after)s::uuid is null or id > %(after)s) order by id limit %(limit)s;

-- name: sweep_sessions
-- Deletes expired sessions.
delete from session where expires_at <= clock_now();

-- name: open_session
-- Opens a browser session.
insert into session (hash, key_id, expires_at) values (%(hash)s, %(key)s, clock_now() + %(life)s);

-- name: end_session
-- Ends a browser session.
delete from session where hash = %(hash)s;

-- name: begin_audit
-- Logs a request before it is served.
insert into audit (org_id, actor, key_id, role, method, path, client, base_id)
values (%(org)s, %(actor)s, %(key)s, %(role)s, %(method)s, %(path)s, %(client)s, audit_base(%(path)s))
returning id;

-- name: end_audit
-- Logs the response.
update audit set status = %(status)s, took_ms = %(took)s where id = %(id)s;

-- name: list_audit
-- Requests of an organisation, newest first, before a cursor.
select id, at, actor, key_id, role, method, path, client, status, took_ms, audit_action(method, path) as action from audit
 where org_id = %(org)s and (%(before)s::uuid is null or id < %(before)s)
   and (%(actor)s::text is null or strpos(lower(actor), lower(%(actor)s)) > 0)
   and (%(path)s::text is null or strpos(lower(path), lower(%(path)s)) > 0)
   and (%(method)s::text is null or method = %(method)s)
   and (not %(failed)s or status >= 400)
   and (%(action)s::text is null or audit_action(method, path) = %(action)s)
   and (%(since)s::timestamptz is null or at >= %(since)s)
   and (%(until)s::timestamptz is null or at < %(until)s)
 order by id desc limit %(limit)s;

-- name: sweep_audit
-- Deletes rows past their retention, a few at a time, so that no request pays for many. Not those of bases: see below.
delete from audit where id in (
    select id from audit where base_id is null and at < clock_now() - %(retention)s::interval limit 20 for update skip locked);

-- name: sweep_audit_of_bases
-- Deletes rows of bases that are older than the retention of their base, or than the one for all.
delete from audit where id in (
    select a.id from audit a left join retention r on r.base_id = a.base_id
     where a.base_id is not null
       and a.at < clock_now() - coalesce(make_interval(days => r.audit_days), %(retention)s::interval)
     limit 10000);

-- name: claim_request
-- () | running, but no longer renewed -> running.
insert into idempotency (org_id, caller, key, token, fingerprint, state)
values (%(org)s, %(caller)s, %(key)s, %(token)s, %(fingerprint)s, 'running')
on conflict (org_id, caller, key) do update
   set token = excluded.token, at = clock_now()
 where idempotency.state = 'running' and idempotency.at < clock_now() - %(expiry)s::interval
   and idempotency.fingerprint = excluded.fingerprint
returning token;

-- name: find_request
-- A request. One that was done a moment ago counts as running, because its response is being saved.
select fingerprint, status, answer,
       case when state = 'done' and at > clock_now() - interval '10 seconds' then 'running' else state end as state
  from idempotency
 where org_id = %(org)s and caller = %(caller)s and key = %(key)s;

-- name: renew_request
-- A request is still running, only with the token of the claim.
update idempotency set at = clock_now()
 where org_id = %(org)s and caller = %(caller)s and key = %(key)s and token = %(token)s and state = 'running';

-- name: mark_request_done
-- running -> done, only with the token of the claim.
update idempotency set state = 'done', at = clock_now()
 where org_id = %(org)s and caller = %(caller)s and key = %(key)s and token = %(token)s and state in ('running', 'done')
returning key;

-- name: save_response
-- done -> answered, only with the token of the claim.
update idempotency set state = 'answered', status = %(status)s, answer = %(answer)s
 where org_id = %(org)s and caller = %(caller)s and key = %(key)s and token = %(token)s;

-- name: release_request
-- running -> (), only with the token of the claim.
delete from idempotency
 where org_id = %(org)s and caller = %(caller)s and key = %(key)s and token = %(token)s and state = 'running';

-- name: sweep_requests
-- Deletes requests of more than a day ago, a few at a time.
delete from idempotency where (org_id, caller, key) in (
    select org_id, caller, key from idempotency where at < clock_now() - interval '1 day' limit 20 for update skip locked);

-- name: old_sealed_answers
-- Responses that are not sealed by the current key, in the order of their requests, locked.
select org_id as org, caller, key, answer as sealed from idempotency
 where answer is not null and substring(answer for 11) <> %(prefix)s
   and (%(after_org)s::uuid is null or (org_id, caller, key) > (%(after_org)s, %(after_caller)s, %(after_key)s))
 order by org_id, caller, key limit %(limit)s for update;

-- name: replace_sealed_answer
-- Writes a response that was sealed again.
update idempotency set answer = %(sealed)s where org_id = %(org)s and caller = %(caller)s and key = %(key)s;

-- name: count_sealed_values
-- The number of sealed values by table and key.
select thing, key_id, count(*) as count from sealed_value group by thing, key_id order by thing, key_id;

-- name: retire_sealing_keys
-- Records that nothing is sealed by these keys any more, unless something is.
insert into retired_sealing_key (id)
select unnest(%(ids)s::bytea[]) where not exists (select from sealed_value where key_id = any (%(ids)s))
on conflict (id) do update set retired_at = clock_now()
returning id;

-- name: restore_sealing_keys
-- These keys are in use: they are not retired.
delete from retired_sealing_key where id = any (%(ids)s);

-- name: lock_sealed_tables
-- Waits for the writers of sealed values, and keeps new ones out until the transaction ends.
select lock_sealed_tables();

-- name: find_tool_groups
-- The groups of an organisation's tools that contain whoever has an address.
select t.id::text from tool_groups_of(%(org)s, lower(%(email)s)) t;

-- name: tool_group_names
-- The names of groups of an organisation's tools, each with its connector's.
select g.id, g.name, c.name as connector from connector_group g left join connector c on c.id = g.connector_id
 where g.org_id = %(org)s and g.id = any (%(ids)s::uuid[]);
