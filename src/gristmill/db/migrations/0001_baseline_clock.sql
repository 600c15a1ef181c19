-- Part of the schema of the first release. Frozen: read schema/ and functions/ instead.
create extension if not exists vector;
create function clock_now() returns timestamptz
    language sql stable parallel safe as 'select statement_timestamp()';
do $do$
begin
    if current_setting('server_version_num')::int < 180000 then
        create function uuidv7() returns uuid language sql volatile parallel safe as $$
            select encode(
                set_byte(set_byte(overlay(uuid_send(gen_random_uuid())
                    placing substring(int8send((us / 1000)::bigint) from 3) from 1 for 6),
                    6, 112 | ((us % 1000) * 4096 / 1000 / 256)::int),
                    7, ((us % 1000) * 4096 / 1000 % 256)::int), 'hex')::uuid
            from (select (extract(epoch from clock_timestamp()) * 1000000)::bigint as us) t
        $$;
    end if;
end $do$;
