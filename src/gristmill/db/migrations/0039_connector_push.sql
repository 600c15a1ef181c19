-- Tools report changes themselves: each connector may have a secret that their calls prove.
create table connector_push (
    connector_id    uuid primary key references connector on delete cascade,
    secret          bytea not null,             -- encrypted by the vault
    due             boolean not null default false, -- a run has to begin: its job is queued, or is when the open run ends
    created_at      timestamptz not null default clock_now(),
    last_push_at    timestamptz
);
alter table connector_run drop constraint connector_run_trigger_check;
alter table connector_run add constraint connector_run_trigger_check check (trigger in ('schedule', 'manual', 'push'));
create or replace view sealed_value as
select s.thing, case when substring(s.sealed for 3) = 'GM1'::bytea then substring(s.sealed from 4 for 8) end as key_id
  from (select 'connector' as thing, substring(credentials for 11) as sealed from connector
        union all select 'push secret', substring(secret for 11) from connector_push
        union all select 'webhook', substring(secret for 11) from webhook
        union all select 'embedder', substring(api_key for 11) from embedder where api_key is not null
        union all select 'response', substring(answer for 11) from idempotency where answer is not null) s;
create or replace function refuse_retired_key() returns trigger language plpgsql as $$
declare
    v_sealed bytea;
begin
    if tg_table_name = 'connector' then v_sealed := substring(new.credentials for 11);
    elsif tg_table_name in ('webhook', 'connector_push') then v_sealed := substring(new.secret for 11);
    elsif tg_table_name = 'embedder' then v_sealed := substring(new.api_key for 11);
    else v_sealed := substring(new.answer for 11);
    end if;
    if substring(v_sealed for 3) = 'GM1'::bytea
       and exists (select from retired_sealing_key where id = substring(v_sealed from 4 for 8)) then
        raise exception 'the sealing key was replaced' using errcode = 'GM001';
    end if;
    return new;
end $$;
create trigger connector_push_refuse_retired_key before insert or update of secret on connector_push
    for each row execute function refuse_retired_key();
create or replace function lock_sealed_tables() returns void language plpgsql as $$
begin
    lock table connector, connector_push, webhook, embedder, idempotency in share row exclusive mode;
end $$;
