-- Part of the schema of the first release. Frozen: read schema/ and functions/ instead.
create function event_sequence(p_limit int) returns int language plpgsql as $$
declare
    v_rows bigint[];
    v_last bigint;
begin
    if not pg_try_advisory_xact_lock(hashtext('gristmill.events')) then
        return -1;
    end if;
    v_rows := array(select o.n from outbox o order by o.n limit p_limit);
    if v_rows = '{}' then
        return 0;
    end if;
    update event_head h set seq = h.seq + cardinality(v_rows) returning h.seq - cardinality(v_rows) into v_last;
    with taken as (
        delete from outbox o where o.n = any (v_rows) returning o.*)
    insert into event (seq, org_id, position, base_id, type, subject, cause, data, at)
    select v_last + row_number() over (order by t.n), t.org_id,
           coalesce(p.position, 0) + row_number() over (partition by t.org_id order by t.n),
           t.base_id, t.type, t.subject, t.cause, t.data, t.at
      from taken t left join event_position p on p.org_id = t.org_id order by t.n;
    insert into event_position (org_id, position)
    select e.org_id, max(e.position) from event e where e.seq > v_last group by e.org_id
        on conflict (org_id) do update set position = excluded.position;
    return cardinality(v_rows);
end $$;
