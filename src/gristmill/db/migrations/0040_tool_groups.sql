-- Groups of tools stay groups in access lists: who belongs to them is looked up with every request. Lists that name the members of
-- groups one by one are replaced when permissions are next read from the tool.
alter table connector_audience add column tool_groups text[] not null default '{}'; -- keys of groups of the tool
create index connector_identity_email on connector_identity (email) where email is not null;
create table connector_group (
    id              uuid primary key default uuidv7(),
    org_id          uuid not null references organisation,
    connector_id    uuid references connector on delete cascade, -- null: the connector was deleted, its records were not
    key             text collate "C" not null,  -- what the tool calls it; never changes
    name            text not null,
    complete        boolean not null default false, -- all members are known
    digest          bytea not null default '',  -- of members and `complete`: an unchanged group costs no look at its members
    as_of           timestamptz not null default clock_now(),
    kept_for        uuid[] not null default '{}' -- bases that the connector no longer feeds and that keep its records
);
create unique index connector_group_key on connector_group (connector_id, key);
create index connector_group_org on connector_group (org_id);

-- A member of a group: by address, or by an account whose address the tool does not show and that people map.
create table connector_group_member (
    group_id        uuid not null references connector_group on delete cascade,
    email           text collate "C",
    user_id         text collate "C",
    check (num_nonnulls(email, user_id) = 1)
);
create unique index connector_group_member_email on connector_group_member (email, group_id) where email is not null;
create unique index connector_group_member_user on connector_group_member (user_id, group_id) where user_id is not null;
create index connector_group_member_group on connector_group_member (group_id);

create or replace function connector_acl(p_audience connector_audience) returns text[] language sql stable as $$
    select case when not p_audience.complete then '{}'::text[] else array(
        select 'org:*' where p_audience.everybody
        union select 'user_email:' || lower(e) from unnest(p_audience.emails) e
        union select 'user_email:' || lower(i.email) from connector_identity i
               where i.connector_id = p_audience.connector_id and i.user_id = any (p_audience.users) and i.email is not null
        union select 'group:' || g from unnest(p_audience.groups) g
        union select 'tool_group:' || g.id from connector_group g
               where g.connector_id = p_audience.connector_id and g.key = any (p_audience.tool_groups)
        order by 1) end
$$;

-- The groups of an organisation's tools that contain whoever has this address, in lower case: by the address itself, or by an account
-- that is mapped to it. One select, so that the planner inlines it into the calling query.
create function tool_groups_of(p_org uuid, p_email text) returns table (id uuid) language sql stable as $$
    select g.id from connector_group_member m join connector_group g on g.id = m.group_id
     where m.email = p_email and g.org_id = p_org and g.complete
    union
    select g.id from connector_identity i
      join connector_group_member m on m.user_id = i.user_id
      join connector_group g on g.id = m.group_id and g.connector_id = i.connector_id
     where i.email = p_email and g.org_id = p_org and g.complete
$$;
