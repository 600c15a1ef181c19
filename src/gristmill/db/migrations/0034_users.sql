-- Users, groups, keys that belong to users, and sessions of users.
-- People. One who is not active can do nothing: their keys and sessions are refused from the next request on.
create table user_account (
    id              uuid primary key default uuidv7(),
    org_id          uuid not null references organisation,
    user_name       text not null,              -- the name at the identity provider, most often the address
    email           text not null,              -- in lower case; the user is user_email:{email} and user:{id} in access lists
    name            text not null,
    role            text not null check (role in ('admin', 'editor', 'reader')),
    active          boolean not null default true,
    source          text not null check (source in ('local', 'oidc', 'scim')),
    external_id     text,                       -- the id that the provider uses over SCIM
    subject         text,                       -- issuer and subject at the OpenID provider
    password_hash   text,                       -- argon2id
    signed_in_at    timestamptz,
    created_at      timestamptz not null default clock_now(),
    updated_at      timestamptz not null default clock_now()
);
create unique index user_account_email on user_account (org_id, email);
create unique index user_account_user_name on user_account (org_id, lower(user_name));
create unique index user_account_external on user_account (org_id, external_id) where external_id is not null;
create unique index user_account_subject on user_account (org_id, subject) where subject is not null;
create index user_account_org on user_account (org_id, id);

-- Groups are group:{id} in access lists, as they are: a list does not name their members.
create table user_group (
    id              uuid primary key default uuidv7(),
    org_id          uuid not null references organisation,
    name            text not null,
    source          text not null check (source in ('local', 'oidc', 'scim')),
    external_id     text,                       -- the id that the provider uses
    created_at      timestamptz not null default clock_now(),
    updated_at      timestamptz not null default clock_now()
);
create unique index user_group_name on user_group (org_id, lower(name));
create unique index user_group_external on user_group (org_id, external_id) where external_id is not null;
create index user_group_org on user_group (org_id, id);

-- The members of a group: users and other groups.
create table group_member (
    group_id        uuid not null references user_group on delete cascade,
    user_id         uuid references user_account on delete cascade,
    child_id        uuid references user_group on delete cascade,
    source          text not null check (source in ('local', 'oidc', 'scim')),
    check (num_nonnulls(user_id, child_id) = 1)
);
create unique index group_member_user on group_member (user_id, group_id) where user_id is not null;
create unique index group_member_child on group_member (child_id, group_id) where child_id is not null;
create index group_member_group on group_member (group_id, user_id, child_id);

alter table api_key add column user_id uuid references user_account on delete cascade;
alter table api_key drop constraint api_key_role_check;
alter table api_key add constraint api_key_role_check check (role in ('admin', 'editor', 'reader', 'scim'));
create index api_key_user on api_key (user_id) where user_id is not null;

alter table session alter column key_id drop not null;
alter table session add column user_id uuid references user_account on delete cascade;
alter table session add column last_used_at timestamptz not null default clock_now();
alter table session add constraint session_holder check (num_nonnulls(key_id, user_id) = 1);
create index session_user_id on session (user_id) where user_id is not null;

-- Sign-ins that have gone to the OpenID provider and have not come back. Each row is used once.
create table pending_sign_in (
    state           bytea primary key,          -- SHA-256 of the state parameter
    browser         bytea not null,             -- SHA-256 of the cookie of the browser that began
    nonce           text not null,
    verifier        text not null,              -- of PKCE; useless without the code
    next_path       text not null,
    expires_at      timestamptz not null
);
create index pending_sign_in_expiry on pending_sign_in (expires_at);

-- The groups of a user, direct ones and those that contain them. Union drops repetitions, so a cycle of groups ends.
create function user_groups(p_user uuid) returns setof uuid language sql stable as $$
    with recursive above(id) as (
        select m.group_id from group_member m where m.user_id = p_user
        union
        select m.group_id from above a join group_member m on m.child_id = a.id)
    select id from above
$$;
