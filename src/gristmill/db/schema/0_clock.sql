-- Every file of this folder, in the order of their names, and then every file of `functions/`, makes the schema of an empty
-- database in one transaction. A change here needs a migration that makes the same change to existing databases;
-- tests/db/test_schema.py compares the two. `-- owner: PACKAGE` names the one package whose SQL may write the table.

create extension if not exists vector;

-- The only clock. Every comparison with "now" calls it, so that a test can stop time in its own database.
create function clock_now() returns timestamptz
    language sql stable parallel safe as 'select statement_timestamp()';

-- PostgreSQL 18 has uuidv7(); older servers get the same layout: milliseconds, 12 bits of their fraction, random bits.
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
