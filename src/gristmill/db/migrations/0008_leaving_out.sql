-- What is left out of folders and sitemaps: said by their base, and told on the container.

alter table base add column settings jsonb not null default '{}';   -- {"ignore": [pattern, …], "includeHidden": bool}

-- Containers: what their last listing passed over, as {reason: number}. Beside `warnings`, which are derived from the
-- children and written anew with each of them.
alter table item add column left_out jsonb not null default '{}';
