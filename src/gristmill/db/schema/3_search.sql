-- Chunks with their vectors, and the segments that the embedded index reads.

-- Segments know a chunk by its number. Numbers are never reused.
create sequence chunk_no;

-- owner: search
-- Derived rows, replaced wholesale per version. Search reads only rows whose version is their item's live_version. One table
-- for all bases: every index begins with the set, so that the cost of a base does not depend on how many others there are.
-- No foreign key, which would be checked for every row: a segment is written with its chunks, and has one.
create table chunk (
    set_id          uuid not null,
    item_id         uuid not null,
    version         int not null,
    index           int not null,
    id              uuid not null default uuidv7(),
    no              bigint not null default nextval('chunk_no'),
    text            text not null,
    text_hash       uuid,                       -- the first half of SHA-256: equal text reuses its vector
    start           int not null,               -- offsets into the canonical content, in characters
    "end"           int not null,
    page            int,                        -- where it begins, in documents with pages
    headings        text[] not null default '{}',
    embedding       halfvec not null,
    primary key (set_id, item_id, version, index)
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05,
        vacuum_truncate = off, toast.vacuum_truncate = off); -- else a vacuum after a removal locks the table for a moment
create index chunk_text on chunk (set_id, text_hash);
create unique index chunk_number on chunk (set_id, no);

-- owner: search
-- What people decided about a text of an item: its chunks never answer, or come first where they fit a query.
create table chunk_mark (
    item_id         uuid not null references item on delete cascade,
    text_hash       uuid not null,              -- as that of the chunk: a new version with the same text has the mark too
    mark            text not null check (mark in ('disabled', 'pinned')),
    created_at      timestamptz not null default clock_now(),
    primary key (item_id, text_hash)
);

create sequence segment_id;

-- owner: search
-- Chunks that were written together, or merged since: () → written → merged into another. A row never changes, so that
-- readers may cache it. Each array has one entry per chunk, by number; integers are big-endian.
create table segment (
    set_id          uuid not null references chunk_set on delete cascade,
    id              bigint not null default nextval('segment_id'),
    lexer_version   int not null,               -- what lexed it; segments of another version are rebuilt
    chunks          int not null,
    tokens          bigint not null,            -- the sum of the lengths, for BM25
    languages       text[] not null,            -- the stemmers that were applied
    chunks_by_language jsonb not null default '{}', -- {"english": 12, "chinese": 3}
    nos             bytea not null,             -- int8 each
    items           bytea not null,             -- the low eight bytes of each chunk's item
    lengths         bytea not null,             -- in tokens, uint2 each
    signs           bytea not null,             -- the signs of each vector, one bit each
    terms           bytea not null default '',  -- search/lexicon.py documents the format of these three
    ordinals        bytea not null default '',
    counts          bytea not null default '',
    primary key (set_id, id)
);
create index segment_newest on segment (id);    -- compaction looks at the newest ones of all bases
alter table segment
    alter nos set storage external, alter items set storage external, alter lengths set storage external,
    alter signs set storage external, alter terms set storage external, alter ordinals set storage external,
    alter counts set storage external,
    set (vacuum_truncate = off, toast.vacuum_truncate = off);

-- owner: search
-- Numbers of deleted chunks, until no segment contains them any more.
create table deleted_chunk (
    set_id          uuid not null references chunk_set on delete cascade,
    no              bigint not null,
    deleted_at      timestamptz not null default clock_now(),
    primary key (set_id, no)
) with (vacuum_truncate = off);

-- owner: search
-- Changes not yet applied to the search engine of a base that is indexed there. A row is written in the transaction of the change,
-- and deleted once the engine has acknowledged it: () → open → (). No key: a second change of an item is a second row, so
-- that one which comes while the first is worked on is not lost.
create table index_task (
    id              bigint generated always as identity primary key,
    base_id         uuid not null,              -- no foreign key: `drop` outlives its base
    kind            text not null check (kind in (
        'put',                                  -- chunks of a version, by their numbers; the version can't be published before
        'relabel',                              -- who may see an item, or its metadata, has changed
        'remove',                               -- chunks were deleted: their numbers are in deleted_chunk
        'drop')),                               -- the base is gone, or has left; kept for a day, in case a late worker adds something
    item_id         uuid references item on delete cascade,
    version         int,
    first_no        bigint,
    last_no         bigint,
    created_at      timestamptz not null default clock_now()
) with (vacuum_truncate = off);
create index index_task_base on index_task (base_id, kind, id);
create index index_task_item on index_task (item_id) where item_id is not null;

-- owner: search
-- The languages of the texts of a base in a search engine: queries are stemmed for these. Segments carry their own.
create table index_language (
    base_id         uuid not null references base on delete cascade,
    language        text not null,
    primary key (base_id, language)
);

-- owner: search
-- A search that a caller stored under a name, for itself. It ends with its key, unless the key acts for a person.
create table saved_search (
    id              uuid primary key default uuidv7(),
    org_id          uuid not null references organisation,
    owner           text not null,              -- user_email:…, key:{id} or local
    key_id          uuid references api_key on delete cascade,
    name            text not null,
    request         jsonb not null,             -- the body of a request to search
    created_at      timestamptz not null default clock_now(),
    updated_at      timestamptz not null default clock_now()
);
create unique index saved_search_name on saved_search (org_id, owner, lower(name));
create index saved_search_key on saved_search (key_id) where key_id is not null;

-- owner: search
-- What people have searched a base for, if its setting `questions` is `keep`: the words, and not who asked. The comparison of two
-- embedders asks them again.
create table asked_question (
    id              uuid not null default uuidv7(), -- a new one whenever it is asked, so that the latest come first
    base_id         uuid not null references base on delete cascade,
    digest          bytea not null,             -- SHA-256 of the question, in lower case
    question        text not null,
    times           int not null default 1,
    best_score      real,                       -- of the last time; null: no hit, or an answer was asked for
    asked_at        timestamptz not null default clock_now(),
    primary key (base_id, digest)
);
create unique index asked_question_latest on asked_question (base_id, id desc);
create index asked_question_asked on asked_question (asked_at);
