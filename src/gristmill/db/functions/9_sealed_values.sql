-- Values that the vault sealed: which key each was sealed by, and the refusal of retired keys.

-- Every sealed value: `GM1`, eight bytes that are the id of its key, and the ciphertext; of earlier releases the ciphertext alone.
create view sealed_value as
select s.thing, case when substring(s.sealed for 3) = 'GM1'::bytea then substring(s.sealed from 4 for 8) end as key_id
  from (select 'connector' as thing, substring(credentials for 11) as sealed from connector
        union all select 'push secret', substring(secret for 11) from connector_push
        union all select 'webhook', substring(secret for 11) from webhook
        union all select 'embedder', substring(api_key for 11) from embedder where api_key is not null
        union all select 'response', substring(answer for 11) from idempotency where answer is not null) s;

-- Refuses a value that was sealed by a retired key. The rotation locks these tables while it retires a key: what is written
-- afterwards sees the row.
create function refuse_retired_key() returns trigger language plpgsql as $$
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
create trigger connector_refuse_retired_key before insert or update of credentials on connector
    for each row execute function refuse_retired_key();
create trigger connector_push_refuse_retired_key before insert or update of secret on connector_push
    for each row execute function refuse_retired_key();
create trigger webhook_refuse_retired_key before insert or update of secret on webhook
    for each row execute function refuse_retired_key();
create trigger embedder_refuse_retired_key before insert or update of api_key on embedder
    for each row execute function refuse_retired_key();
create trigger idempotency_refuse_retired_key before insert or update of answer on idempotency
    for each row execute function refuse_retired_key();

-- Waits for the writers of sealed values, and keeps new ones out until the transaction ends.
create function lock_sealed_tables() returns void language plpgsql as $$
begin
    lock table connector, connector_push, webhook, embedder, idempotency in share row exclusive mode;
end $$;
