-- name: insert_provider
-- Insert a provider with full buckets, unless it exists.
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
