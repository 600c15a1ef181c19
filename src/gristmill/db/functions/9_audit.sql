-- The audit log.

-- What a request of the audit log did: sign_in, export, read or change. `GET` is written only for exports, and for reads if the
-- setting `audit_reads` says so; searches and questions are reads that are sent by POST.
create function audit_action(p_method text, p_path text) returns text language sql immutable as $$
    select case when p_path = '/api/session' or p_path like '/api/sign-in%' then 'sign_in'
                when p_method in ('GET', 'HEAD') and p_path ~ '(/original|/export|^/api/audit|^/api/usage)$' then 'export'
                when p_method in ('GET', 'HEAD') or p_method = 'POST' and p_path ~ '(/search|/why-not|^/api/ask|/chat/completions|/dify/retrieval)$' then 'read'
                else 'change' end
$$;
