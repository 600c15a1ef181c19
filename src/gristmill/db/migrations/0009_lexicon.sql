-- The words of a segment are columns of it: one row is written where some thousand were, and a merge reads a few.
-- What was lexed before is lexed again by each base's next tidying, and is found by its meaning until then.

drop table posting;

alter table segment
    add column lexicon bytea not null default '',   -- search/lexicon.py tells the form of the three
    add column places  bytea not null default '',
    add column counts  bytea not null default '';
alter table segment alter lexicon set storage external, alter places set storage external,
                    alter counts set storage external;
update segment set recipe = 0, id = nextval('segment_id');

create or replace function base_partition() returns trigger language plpgsql as $$
declare
    v_suffix text := replace(coalesce(new.id, old.id)::text, '-', '');
begin
    if tg_op = 'INSERT' then
        -- Made apart, then attached: that keeps readers and writers of other bases going.
        execute format('create table %I (like chunk including defaults including constraints)', 'chunk_' || v_suffix);
        execute format('alter table chunk attach partition %I for values in (%L)', 'chunk_' || v_suffix, new.id);
    else
        execute format('drop table %I', 'chunk_' || v_suffix);
    end if;
    return null;
end $$;
