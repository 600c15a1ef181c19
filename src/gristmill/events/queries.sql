-- name: insert
-- Writes events in their order; one without a cause has that of its item.
with written as (
    insert into outbox (base_id, type, subject, cause, data)
    select e.base, e.type, e.subject, coalesce(e.cause, i.cause), e.data
      from rows from (json_to_recordset(%(events)s::json) as (base uuid, type text, subject uuid, cause uuid, data jsonb))
           with ordinality as e(base, type, subject, cause, data, n)
      left join item i on i.id = e.subject
     order by e.n)
select pg_notify('event', '');

-- name: not_ready
-- A base was given work: its being ready is taken back.
update base set ingested = false, busy_since = clock_now() where id = %(base)s and (ingested or busy_since is null);

-- name: became_ready
-- How many documents are completed and failed, if the base has just become ready.
select completed, failed from base_became_ready(%(base)s);

-- name: sequence
-- Puts in order what is committed by now.
select event_sequence(%(limit)s);

-- name: events
-- Events after a place in the order.
select seq, base_id, type, subject, cause, data, at from event
 where seq > %(after)s and (%(base)s::uuid is null or base_id = %(base)s)
   and (%(types)s::text[] is null or type = any (%(types)s))
 order by seq limit %(limit)s;

-- name: sweep
-- Events that are older than they are kept.
delete from event where at < clock_now() - %(retention)s::interval;
