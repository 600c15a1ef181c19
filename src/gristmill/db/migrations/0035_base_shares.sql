-- Bases are shared with people and groups as readers, editors or owners.
create table base_share (
    base_id         uuid not null references base on delete cascade,
    principal       text not null,              -- as in the access list
    role            text not null check (role in ('reader', 'editor', 'owner')),
    created_at      timestamptz not null default clock_now(),
    primary key (base_id, principal)
);
