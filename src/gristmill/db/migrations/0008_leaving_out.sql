-- What bases leave out of their folders.

alter table base add column settings jsonb not null default '{}';   -- {"ignore": [pattern, …], "includeHidden": bool}
