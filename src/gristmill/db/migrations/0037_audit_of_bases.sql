-- How long the audit log of a base is kept.
alter table retention add column audit_days int check (audit_days > 0);
alter table audit add column base_id uuid;
create function audit_base(p_path text) returns uuid language sql stable as $$
    with named as (
        select (regexp_match(p_path, '^/(?:api/knowledge-bases|api/knowledge-items|v1/vector_stores|mcp)/'
                                     '([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})(?:/|$)', 'i'))[1]::uuid as id)
    select case when p_path like '/api/knowledge-items/%' then (select i.base_id from item i where i.id = n.id) else n.id end
      from named n
$$;
update audit set base_id = audit_base(path) where audit_base(path) is not null;  -- other rows need not be written
drop index audit_at;
create index audit_at on audit (at) where base_id is null;
create index audit_base on audit (base_id, at) where base_id is not null;
