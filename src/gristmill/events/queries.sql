-- name: insert_events
-- Inserts events in their order; one without a cause has that of its item. An event of a base without an owner is an error.
insert into outbox (base_id, org_id, type, subject, cause, data)
select e.base, o.org_id, e.type, e.subject, coalesce(e.cause, i.cause), e.data
  from rows from (json_to_recordset(%(events)s::json) as (base uuid, type text, subject uuid, cause uuid, data jsonb))
       with ordinality as e(base, type, subject, cause, data, n)
  left join lane_owner o on o.lane = e.base::text
  left join item i on i.id = e.subject
 order by e.n;

-- name: mark_ready_if_idle
-- Marks a base as ready if it just became so: the numbers of its completed and failed documents.
select completed, failed from base_mark_ready(%(base)s);

-- name: sequence_batch
-- Sequences a batch of committed events.
select event_sequence(%(limit)s);

-- name: events
-- Events of an organisation after a position.
select seq, org_id, position, base_id, type, subject, cause, data, at from event
 where org_id = %(org)s and position > %(after)s and (%(base)s::uuid is null or base_id = %(base)s)
   and (%(types)s::text[] is null or type = any (%(types)s))
 order by position limit %(limit)s;

-- name: events_before
-- Events of an organisation before a position, newest first.
select seq, org_id, position, base_id, type, subject, cause, data, at from event
 where org_id = %(org)s and position > %(after)s and position < %(before)s and (%(base)s::uuid is null or base_id = %(base)s)
   and (%(types)s::text[] is null or type = any (%(types)s))
 order by position desc limit %(limit)s;

-- name: read_all
-- Events of all organisations after a seq.
select seq, org_id, position, base_id, type, subject, cause, data, at from event
 where seq > %(after)s order by seq limit %(limit)s;

-- name: last_seq
-- The last seq.
select seq from event_head;

-- name: last_positions
-- The last position of each organisation, up to a seq.
select p.org_id, coalesce((select min(e.position) - 1 from event e where e.org_id = p.org_id and e.seq > %(upto)s), p.position)
       as position
  from event_position p;

-- name: oldest_position
-- The first position of an organisation that is not swept yet.
select min(position) from event where org_id = %(org)s;

-- name: sweep
-- Deletes events that are older than the retention, except those of bases under a legal hold or with a longer retention of their own.
delete from event where seq in (
    select e.seq from event e
     where e.at < clock_now() - %(retention)s::interval
       and not exists (select from legal_hold h where h.base_id = e.base_id and h.item_id is null and h.lifted_at is null)
       and not exists (select from retention r
                        where r.base_id = e.base_id and e.at >= clock_now() - make_interval(days => r.event_days))
     limit 10000);

-- name: sweep_base
-- Deletes events of a base that are older than so many days, unless it is under a legal hold.
delete from event where seq in (
    select e.seq from event e
     where e.base_id = %(base)s and e.at < clock_now() - make_interval(days => %(days)s)
       and not exists (select from legal_hold h where h.base_id = e.base_id and h.item_id is null and h.lifted_at is null)
     limit 10000);

-- name: mark_due_webhooks
-- Active webhooks that want one of the events after a position: sets how far each has to deliver.
update webhook w set wanted = (select p.position from event_position p where p.org_id = w.org_id)
 where w.status = 'active' and exists (
       select from event e where e.seq > %(after)s and e.seq <= %(head)s and e.org_id = w.org_id
          and (w.base_id is null or e.base_id = w.base_id) and (w.types is null or e.type = any (w.types)))
returning w.id;

-- name: insert_webhook
-- Creates a webhook at the present end of its organisation's events.
insert into webhook (id, org_id, url, description, secret, base_id, types, cursor)
select %(id)s, %(org)s, %(url)s, %(description)s, %(secret)s, %(base)s, %(types)s::text[],
       coalesce((select p.position from event_position p where p.org_id = %(org)s), 0)
returning id, org_id, url, description, secret, base_id, types, status, cursor, attempts, failing_since, error_code,
          error_message, delivered, delivered_at, created_at, updated_at;

-- name: lock_webhook_creation
-- Serialises the creation of an organisation's webhooks.
select pg_advisory_xact_lock(hashtext('gristmill.webhooks'), hashtext(%(org)s::text));

-- name: count_webhooks
-- How many webhooks an organisation has.
select count(*)::int from webhook where org_id = %(org)s;

-- name: webhook
-- One webhook.
select id, org_id, url, description, secret, base_id, types, status, cursor, attempts, failing_since, error_code,
       error_message, delivered, delivered_at, created_at, updated_at
  from webhook where id = %(id)s and (%(org)s::uuid is null or org_id = %(org)s);

-- name: lock_webhook
-- One webhook, locked until the transaction ends.
select id, org_id, url, description, secret, base_id, types, status, cursor, attempts, failing_since, error_code,
       error_message, delivered, delivered_at, created_at, updated_at
  from webhook where id = %(id)s for no key update;

-- name: webhooks
-- Webhooks, oldest first, after a cursor.
select id, org_id, url, description, secret, base_id, types, status, cursor, attempts, failing_since, error_code,
       error_message, delivered, delivered_at, created_at, updated_at
  from webhook where org_id = %(org)s and (%(after)s::uuid is null or id > %(after)s) order by id limit %(limit)s;

-- name: update_webhook
-- Changes a webhook. One that becomes active wants all events up to the present end.
update webhook w
   set url = %(url)s, description = %(description)s, types = %(types)s::text[], status = %(status)s, attempts = 0,
       failing_since = null, error_code = null, error_message = null, updated_at = clock_now(),
       wanted = case when %(status)s = 'active' then greatest(w.wanted, (
           select p.position from event_position p where p.org_id = w.org_id)) else w.wanted end
 where w.id = %(id)s
returning w.id, w.org_id, w.url, w.description, w.secret, w.base_id, w.types, w.status, w.cursor, w.attempts, w.failing_since,
          w.error_code, w.error_message, w.delivered, w.delivered_at, w.created_at, w.updated_at;

-- name: delete_webhook
-- Deletes a webhook and its dead letters.
delete from webhook where id = %(id)s;

-- name: mark_caught_up
-- Moves the cursor to the end of what was wanted.
update webhook set cursor = greatest(cursor, wanted) where id = %(id)s;

-- name: record_delivery
-- An event was accepted: moves the cursor, unless the webhook was changed meanwhile.
update webhook
   set cursor = %(seq)s, attempts = 0, failing_since = null, error_code = null, error_message = null,
       delivered = delivered + 1, delivered_at = clock_now()
 where id = %(id)s and status = 'active' and cursor = %(before)s
returning id;

-- name: record_refusal
-- An event was not accepted: counts the attempt, unless the webhook was changed meanwhile.
update webhook
   set attempts = attempts + 1, failing_since = coalesce(failing_since, clock_now()), error_code = %(code)s,
       error_message = %(message)s
 where id = %(id)s and status = 'active' and cursor = %(before)s
returning attempts;

-- name: give_up
-- active -> paused: an event becomes a dead letter.
with paused as (
    update webhook set status = 'paused', updated_at = clock_now() where id = %(id)s
    returning id, attempts, error_code, error_message)
insert into dead_letter (webhook_id, seq, type, base_id, attempts, error_code, error_message)
select id, %(seq)s, %(type)s, %(base)s, attempts, error_code, error_message from paused
on conflict (webhook_id, seq) do update
   set attempts = excluded.attempts, error_code = excluded.error_code, error_message = excluded.error_message,
       died_at = excluded.died_at, outcome = null;

-- name: dead_letters
-- Dead letters of a webhook, newest first, before a cursor.
select seq, type, base_id, attempts, error_code, error_message, died_at, outcome from dead_letter
 where webhook_id = %(webhook)s and (%(before)s::bigint is null or seq < %(before)s)
 order by seq desc limit %(limit)s;

-- name: close_dead_letter
-- Records the outcome of a dead letter; one that was skipped can still be sent.
update dead_letter set outcome = %(outcome)s
 where webhook_id = %(webhook)s and seq = %(seq)s and (outcome is null or outcome = 'skipped' and %(outcome)s = 'redriven')
returning seq;

-- name: redrive_open_letter
-- Sends the dead letter again that a webhook was paused before.
update dead_letter set outcome = 'redriven' where webhook_id = %(webhook)s and outcome is null;

-- name: resume_from
-- paused | active -> active, from a position on.
update webhook w
   set status = 'active', cursor = %(cursor)s, attempts = 0, failing_since = null, error_code = null,
       error_message = null, updated_at = clock_now(),
       wanted = greatest(w.wanted, (select p.position from event_position p where p.org_id = w.org_id))
 where w.id = %(id)s;

-- name: lock_orphaned
-- Active webhooks that have something to deliver and no living job.
select w.id from webhook w
 where w.status = 'active' and w.wanted > w.cursor
   and not exists (select from job j where j.subject = w.id and j.kind = 'deliver_events' and j.state <> 'dead')
 order by w.id limit %(limit)s for no key update skip locked;

-- name: backlog
-- The age of the oldest event that is not sequenced, and the number of webhooks with something to deliver.
select coalesce(extract(epoch from clock_now() - min(o.at)), 0)::float8 as lag_seconds,
       (select count(*)::int from webhook w where w.status = 'active' and w.wanted > w.cursor) as webhooks
  from outbox o;

-- name: is_sequencing_due
-- Whether a webhook may be waiting for events that are not sequenced yet.
select exists (select from outbox) and exists (select from webhook where status = 'active');

-- name: old_sealed_webhook_secrets
-- Secrets that are not sealed by the current key, in the order of their ids, locked.
select id, secret as sealed from webhook
 where substring(secret for 11) <> %(prefix)s and (%(after)s::uuid is null or id > %(after)s)
 order by id limit %(limit)s for update;

-- name: replace_sealed_webhook_secret
-- Writes a secret that was sealed again.
update webhook set secret = %(sealed)s where id = %(id)s;
