-- name: provider_enter
-- Make a provider known, as unused; one that is known stays as it is.
insert into provider (key, requests, tokens, concurrency)
values (%(key)s, %(requests)s, %(tokens)s, %(concurrency)s)
on conflict do nothing;

-- name: provider_lock
-- Read a provider and keep the others from it until the transaction ends.
select requests, tokens, concurrency, strikes,
       greatest(0, extract(epoch from paused_until - clock_now()))::float8 as paused,
       greatest(0, extract(epoch from clock_now() - refilled_at))::float8 as elapsed
  from provider where key = %(key)s for update;

-- name: provider_others
-- Who else holds a portion or waits for one, and how many slots they have; those that ran out are gone.
with gone as (
    delete from provider_portion where provider = %(key)s and expires_at <= clock_now())
select count(*)::int as holders, coalesce(sum(slots), 0)::int as slots
  from provider_portion
 where provider = %(key)s and holder <> %(holder)s and expires_at > clock_now();

-- name: provider_save
-- Write a locked provider back.
update provider
   set requests = %(requests)s, tokens = %(tokens)s, concurrency = %(concurrency)s, strikes = %(strikes)s,
       refilled_at = clock_now(),
       paused_until = case when %(paused)s::float8 > 0 then clock_now() + make_interval(secs => %(paused)s) else '-infinity' end
 where key = %(key)s;

-- name: portion_save
-- Hold a portion, or the same one for longer.
insert into provider_portion (provider, holder, slots, expires_at)
values (%(key)s, %(holder)s, %(slots)s, clock_now() + %(lasts)s)
on conflict (provider, holder) do update set slots = excluded.slots, expires_at = excluded.expires_at;

-- name: portion_drop
-- Let a portion go.
delete from provider_portion where provider = %(key)s and holder = %(holder)s;
