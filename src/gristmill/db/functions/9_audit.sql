-- The audit log.

-- What a request of the audit log did: sign_in, export, read or change. `GET` is written only for exports, and for reads if the
-- setting `audit_reads` says so; searches and questions are reads that are sent by POST.
create function audit_action(p_method text, p_path text) returns text language sql immutable as $$
    select case when p_path = '/api/session' or p_path like '/api/sign-in%' then 'sign_in'
                when p_method in ('GET', 'HEAD') and p_path ~ '(/original|/export|^/api/audit|^/api/usage)$' then 'export'
                when p_method in ('GET', 'HEAD') or p_method = 'POST' and p_path ~ '(/search|/why-not|^/api/ask|/chat/completions|/dify/retrieval)$' then 'read'
                else 'change' end
$$;

-- The base that a request names, or whose item it names; null if neither.
create function audit_base(p_path text) returns uuid language sql stable as $$
    with named as (
        select (regexp_match(p_path, '^/(?:api/knowledge-bases|api/knowledge-items|v1/vector_stores|mcp)/'
                                     '([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})(?:/|$)', 'i'))[1]::uuid as id)
    select case when p_path like '/api/knowledge-items/%' then (select i.base_id from item i where i.id = n.id) else n.id end
      from named n
$$;
