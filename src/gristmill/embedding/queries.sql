-- name: insert_provider
-- Insert a provider with full buckets, unless it exists; delete those that were not used for a week.
with unused as (
    select key from provider p
     where refilled_at < clock_now() - interval '7 days'
       and not exists (select from provider_portion where provider = p.key and expires_at > clock_now())
       for update skip locked),
deleted as (delete from provider where key in (select key from unused))
insert into provider (key, requests, tokens, concurrency)
values (%(key)s, %(requests)s, %(tokens)s, %(concurrency)s)
on conflict do nothing;

-- name: lock_provider
-- Lock a provider until the transaction ends, and read its state.
select requests, tokens, concurrency, strikes,
       greatest(0, extract(epoch from paused_until - clock_now()))::float8 as paused,
       greatest(0, extract(epoch from clock_now() - refilled_at))::float8 as elapsed
  from provider where key = %(key)s for update;

-- name: other_holders
-- Count the other processes that hold or wait for a portion, and their slots; delete portions that have expired.
with expired as (
    delete from provider_portion where provider = %(key)s and expires_at <= clock_now())
select count(*)::int as holders, coalesce(sum(slots), 0)::int as slots
  from provider_portion
 where provider = %(key)s and holder <> %(holder)s and expires_at > clock_now();

-- name: save_provider
-- Save the state of a locked provider.
update provider
   set requests = %(requests)s, tokens = %(tokens)s, concurrency = %(concurrency)s, strikes = %(strikes)s,
       refilled_at = clock_now(),
       paused_until = case when %(paused)s::float8 > 0 then clock_now() + make_interval(secs => %(paused)s) else '-infinity' end
 where key = %(key)s;

-- name: hold_portion
-- Insert a process's portion, or change and extend it.
insert into provider_portion (provider, holder, slots, expires_at)
values (%(key)s, %(holder)s, %(slots)s, clock_now() + %(lifetime)s)
on conflict (provider, holder) do update set slots = excluded.slots, expires_at = excluded.expires_at;

-- name: drop_portion
-- Delete a process's portion.
delete from provider_portion where provider = %(key)s and holder = %(holder)s;

-- name: insert_embedder
-- Create an embedder, unless its organisation has one of that name.
insert into embedder (id, org_id, name, kind, config, api_key, private)
values (%(id)s, %(org)s, %(name)s, %(kind)s, %(config)s, %(api_key)s, %(private)s)
on conflict do nothing
returning *;

-- name: update_embedder
-- Change an embedder that the caller has locked.
update embedder
   set config = %(config)s, api_key = %(api_key)s, private = %(private)s, revision = revision + 1,
       updated_at = greatest(clock_now(), updated_at + interval '1 microsecond')
 where id = %(id)s
returning *;

-- name: delete_embedder
-- Delete an embedder.
delete from embedder where id = %(id)s;

-- name: lock_embedder
-- An embedder of an organisation, locked until the transaction ends against changes and against new bases that use it.
select * from embedder where org_id = %(org)s and name = %(name)s for update;

-- name: hold_embedder
-- An embedder of an organisation, which can be neither changed nor deleted until the transaction ends.
select * from embedder where org_id = %(org)s and name = %(name)s for share;

-- name: embedders
-- All embedders of an organisation.
select * from embedder where org_id = %(org)s order by name;

-- name: embedder_revisions
-- The revisions of all embedders of an organisation.
select id, revision from embedder where org_id = %(org)s;

-- name: embedder_names
-- The names of stored embedders that are among these.
select distinct name from embedder where name = any (%(names)s::text[]) order by name;

-- name: lock_embedder_creation
-- No other transaction creates an embedder of this organisation until this one ends.
select pg_advisory_xact_lock(hashtext('gristmill.embedders'), hashtext(%(org)s::text));

-- name: count_embedders
-- How many embedders an organisation has.
select count(*)::int from embedder where org_id = %(org)s;

-- name: set_default_embedder
-- Chooses the embedder of new bases of an organisation.
insert into default_embedder (org_id, name) values (%(org)s, %(name)s) on conflict (org_id) do update set name = excluded.name;

-- name: reset_default_embedder
-- Leaves the embedder of new bases to the settings again, if it is this one.
delete from default_embedder where org_id = %(org)s and name = %(name)s;

-- name: default_embedder
-- The embedder that an organisation chose for its new bases.
select name from default_embedder where org_id = %(org)s;

-- name: old_sealed_embedder_keys
-- Keys of embedders that are not sealed by the current key, in the order of their ids, locked.
select id, api_key as sealed from embedder
 where api_key is not null and substring(api_key for 11) <> %(prefix)s and (%(after)s::uuid is null or id > %(after)s)
 order by id limit %(limit)s for update;

-- name: replace_sealed_embedder_key
-- Writes a key that was sealed again.
update embedder set api_key = %(sealed)s where id = %(id)s;
