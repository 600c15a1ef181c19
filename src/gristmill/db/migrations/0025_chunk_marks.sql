-- Chunks that people disabled or pinned, by the text of the chunk.
create table chunk_mark (
    item_id         uuid not null references item on delete cascade,
    text_hash       uuid not null,              -- as that of the chunk: a new version with the same text has the mark too
    mark            text not null check (mark in ('disabled', 'pinned')),
    created_at      timestamptz not null default clock_now(),
    primary key (item_id, text_hash)
);
