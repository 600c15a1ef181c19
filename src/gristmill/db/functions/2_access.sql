-- Access lists: which items a caller may see.

-- The groups of a user, direct ones and those that contain them. Union drops repetitions, so a cycle of groups ends.
create function user_groups(p_user uuid) returns setof uuid language sql stable as $$
    with recursive above(id) as (
        select m.group_id from group_member m where m.user_id = p_user
        union
        select m.group_id from above a join group_member m on m.child_id = a.id)
    select id from above
$$;

-- A new item's list is its own, or else the one that applies to its parent.
create function item_inherit_acl() returns trigger language plpgsql as $$
begin
    new.acl_from := case when new.acl is not null then new.id
                         when new.parent_id is not null then (select p.acl_from from item p where p.id = new.parent_id) end;
    return new;
end $$;
create trigger item_inherit_acl before insert on item for each row execute function item_inherit_acl();

-- Gives an item a list of its own, or with null the inherited one, and passes it on to everything below without a list.
create function item_set_acl(p_item uuid, p_acl text[]) returns void language plpgsql as $$
declare
    v_from uuid := p_item;
begin
    if p_acl is null then
        select p.acl_from into v_from from item i left join item p on p.id = i.parent_id where i.id = p_item;
    end if;
    with recursive below(id) as (
        select p_item
        union all
        select c.id from item c join below b on c.parent_id = b.id where c.acl is null)
    update item i
       set acl = case when i.id = p_item then p_acl else i.acl end, acl_from = v_from, updated_at = clock_now()
      from below where i.id = below.id;
end $$;

-- Whether a caller with these principals sees an item. Null principals are an admin's, who sees everything. An item whose
-- list is not known is visible to admins only.
create function item_is_visible(p_principals text[], p_acl_from uuid, p_own text[], p_base text[]) returns boolean
    language sql immutable parallel safe as
    'select p_principals is null or coalesce(case when p_acl_from is null then p_base else p_own end && p_principals, false)';

-- The items that a search may answer from, for these principals and filters; a filter that is null passes everything.
-- One select, so that the planner inlines it into the calling query.
create function item_searchable(p_base uuid, p_principals text[], p_types text[], p_under uuid[], p_metadata jsonb,
                                p_condition jsonpath, p_created_after timestamptz, p_created_before timestamptz,
                                p_updated_after timestamptz, p_updated_before timestamptz)
    returns table (id uuid, live_version int, title text, index_title text, type text, source jsonb, metadata jsonb, acl text[],
                   acl_from uuid)
    language sql stable as $$
    select i.id, i.live_version, i.title, i.index_title, i.type, i.source, i.metadata, i.acl, i.acl_from
      from item i join base b on b.id = i.base_id left join item o on o.id = i.acl_from
     where i.base_id = p_base and i.live_version is not null and i.status <> 'deleting' and b.status <> 'deleting'
       and item_is_visible(p_principals, i.acl_from, o.acl, b.acl)
       and (p_types is null or i.type = any (p_types))
       and (p_under is null or i.id in (select s.id from item_subtree(p_under) s))
       and (p_metadata is null or i.filterable @> p_metadata)
       and (p_condition is null or i.filterable @@ p_condition)
       and (p_created_after is null or i.created_at >= p_created_after)
       and (p_created_before is null or i.created_at < p_created_before)
       and (p_updated_after is null or i.updated_at >= p_updated_after)
       and (p_updated_before is null or i.updated_at < p_updated_before)
$$;

-- The access list of an audience: empty unless it is complete; accounts count by the addresses they are mapped to.
create function connector_acl(p_audience connector_audience) returns text[] language sql stable as $$
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

-- Updates the lists of audiences, and of their records in every base, where they differ; the number of records changed.
-- Of all documents of the audiences, or of p_sources. The caller holds the locks of the bases, shared or not. Chunks and
-- vectors are not touched.
create function connector_apply_audiences(p_connector uuid, p_keys text[], p_sources text[]) returns int language plpgsql as $$
declare
    v_changed int;
begin
    update connector_audience a set acl = connector_acl(a)
     where a.connector_id = p_connector and a.key = any (p_keys) and a.acl is distinct from connector_acl(a);
    if (select c.acl is not null from connector c where c.id = p_connector) then
        return 0;   -- one list for everything, on the containers
    end if;
    select count(item_set_acl(t.id, t.acl)) into v_changed from (
        select i.id, a.acl from connector_audience a
          join connector_document d on d.connector_id = a.connector_id and d.audience = a.key
          join connector_base b on b.connector_id = a.connector_id
          join item i on i.parent_id = b.item_id and i.type = 'record' and i.source_key = d.source_id
                     and i.status <> 'deleting'
         where a.connector_id = p_connector and a.key = any (p_keys) and i.acl is distinct from a.acl
           and (p_sources is null or d.source_id = any (p_sources))
         order by i.id for no key update of i) t;
    return v_changed;
end $$;

-- When the tool was last asked who may see a record; null for items without a connector, or with the connector's own list.
create function item_acl_as_of(p_item item) returns timestamptz language sql stable as $$
    select case when p_item.type = 'record' then (
        select a.as_of from connector_document d
          join connector c on c.id = d.connector_id and c.acl is null
          join connector_audience a on a.connector_id = d.connector_id and a.key = d.audience
         where d.connector_id = (p_item.source ->> 'connectorId')::uuid and d.source_id = p_item.source_key) end
$$;
