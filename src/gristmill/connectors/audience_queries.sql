-- Who may see a connector's documents.

-- name: unknown_audiences
-- Those of the audiences that were never resolved.
select u.key from unnest(%(keys)s::text[]) u(key)
 where not exists (select from connector_audience a where a.connector_id = %(connector)s and a.key = u.key);

-- name: unresolved_audiences
-- The audiences of documents that could not be resolved, and how many documents each has.
select a.key, count(*)::int as documents
  from connector_audience a
  join connector_document d on d.connector_id = a.connector_id and d.audience = a.key
 where a.connector_id = %(connector)s and not a.complete
 group by a.key order by a.key;

-- name: audiences_unresolved_before
-- The audiences of documents that could not be resolved, and that were not asked for since an instant.
select a.key from connector_audience a
 where a.connector_id = %(connector)s and not a.complete and a.as_of < %(before)s
   and exists (select from connector_document d where d.connector_id = a.connector_id and d.audience = a.key)
 order by a.key;

-- name: save_audiences
-- Saves audiences as their tool described them when it was asked, unless it was asked for them later, too.
-- Returns the keys of those whose access list has changed and is to be applied.
with new as (
    select * from json_to_recordset(%(audiences)s::json)
        as u(key text, everybody boolean, emails text[], users text[], groups text[], complete boolean, tool_groups text[])),
saved as (
    insert into connector_audience as a (connector_id, key, everybody, emails, users, groups, complete, acl, as_of, tool_groups)
    select %(connector)s, n.key, n.everybody, n.emails, n.users, n.groups, n.complete, '{}', %(asked_at)s, n.tool_groups from new n
     order by n.key
    on conflict (connector_id, key) do update
       set everybody = excluded.everybody, emails = excluded.emails, users = excluded.users, groups = excluded.groups,
           complete = excluded.complete, tool_groups = excluded.tool_groups, as_of = excluded.as_of
     where a.as_of <= excluded.as_of
    returning a.*)
select s.key from saved s where s.acl is distinct from connector_acl(s.*::connector_audience);

-- name: audience_acls
-- The access lists of audiences.
select key, acl from connector_audience where connector_id = %(connector)s and key = any (%(keys)s::text[]);

-- name: audiences_asked_before
-- The audiences that documents name and that were not asked for since an instant.
select d.audience from connector_document d
  left join connector_audience a on a.connector_id = d.connector_id and a.key = d.audience
 where d.connector_id = %(connector)s and (a.key is null or a.as_of < %(before)s)
 group by 1 order by 1;

-- name: newer_audiences
-- Those of the documents whose audience was asked for after an instant, with it.
select source_id, audience from connector_document
 where connector_id = %(connector)s and source_id = any (%(sources)s::text[]) and audience_as_of > %(asked_at)s;

-- name: audiences_of_user
-- The audiences that an account is part of.
select key from connector_audience where connector_id = %(connector)s and %(user)s = any (users);

-- name: set_document_audiences
-- Gives documents other audiences; the ids of the documents that had others before. A later answer stays.
-- While a run is open, documents with the same audience get the time too: the run may have an older one.
-- Documents with marks are noted to be read again, by the id of no run. The next run takes those whose marks it knows for
-- unchanged, also where the tool has changed the readers back since.
with new as materialized (
    select d.source_id, d.scope, d.kind, d.locator, d.mark, u.audience, d.audience <> u.audience as is_other
      from unnest(%(sources)s::text[], %(audiences)s::text[]) u(source_id, audience)
      join connector_document d on d.connector_id = %(connector)s and d.source_id = u.source_id
     where d.audience_as_of <= %(asked_at)s
       and (d.audience <> u.audience
            or exists (select from connector_run r where r.connector_id = %(connector)s and r.completed_at is null))),
saved as (
    update connector_document d set audience = n.audience, audience_as_of = %(asked_at)s
      from new n where d.connector_id = %(connector)s and d.source_id = n.source_id),
noted as (
    insert into connector_failure (connector_id, source_id, scope, kind, locator, run_id, error_code, error_message, attempts)
    select %(connector)s, source_id, scope, kind, locator, uuidv7(), %(code)s, %(message)s, 0
      from new where is_other and mark is not null order by source_id
    on conflict (connector_id, source_id) do nothing)
select source_id from new where is_other;

-- name: note_older_audiences
-- Notes documents that were just read, and that have an audience of a later answer, to be read again by the next run.
insert into connector_failure (connector_id, source_id, scope, kind, locator, run_id, error_code, error_message)
select d.connector_id, d.source_id, d.scope, d.kind, d.locator, uuidv7(), %(code)s, %(message)s
  from unnest(%(sources)s::text[], %(audiences)s::text[]) u(source_id, audience)
  join connector_document d on d.connector_id = %(connector)s and d.source_id = u.source_id
 where d.audience_as_of > %(asked_at)s and d.audience <> u.audience and d.mark is not null
 order by d.source_id
on conflict (connector_id, source_id) do nothing;

-- name: apply_audiences
-- Writes the access lists of audiences onto the records of every base; how many records changed.
select connector_apply_audiences(%(connector)s, %(keys)s::text[], %(sources)s::text[]);

-- name: apply_connector_acl
-- Writes the access lists of containers and records after a change of the connector's own list.
-- With a list of its own: that list onto containers, none onto records. Without one: an empty list onto containers, and the
-- audience's list onto each record.
select count(item_set_acl(t.id, t.acl))::int from (
    select i.id, case when i.type = 'connector' then coalesce(c.acl, '{}') when c.acl is null then a.acl end as acl
      from connector c join connector_base b on b.connector_id = c.id
      join item i on (i.id = b.item_id or (i.parent_id = b.item_id and i.type = 'record')) and i.status <> 'deleting'
      left join connector_document d on d.connector_id = c.id and d.source_id = i.source_key and i.type = 'record'
      left join connector_audience a on a.connector_id = c.id and a.key = d.audience
     where c.id = %(connector)s order by i.type <> 'connector', i.id) t;

-- name: close_audiences
-- Marks audiences as unresolved, so that only admins see their documents. A later answer stays.
update connector_audience set complete = false, as_of = %(asked_at)s
 where connector_id = %(connector)s and key = any (%(keys)s::text[]) and as_of <= %(asked_at)s
returning key;

-- name: delete_unused_audiences
-- Deletes audiences that no document names any more, in the order in which they are saved.
with unused as materialized (
    select a.key from connector_audience a
     where a.connector_id = %(connector)s
       and not exists (select from connector_document d where d.connector_id = a.connector_id and d.audience = a.key)
     order by a.key for update)
delete from connector_audience a using unused u where a.connector_id = %(connector)s and a.key = u.key;

-- name: mark_access_resolved
-- Records that all permissions are those of an instant, or newer.
update connector set acl_as_of = greatest(acl_as_of, %(as_of)s) where id = %(connector)s;

-- name: all_identities
-- All accounts of a connector's tool that permissions name and whose address it does not show.
select user_id, name, email from connector_identity where connector_id = %(connector)s order by user_id;

-- name: map_identities
-- Maps accounts to email addresses, or removes mappings.
insert into connector_identity (connector_id, user_id, name, email)
select %(connector)s, u.id, '', u.email from unnest(%(users)s::text[], %(emails)s::text[]) u(id, email) order by u.id
on conflict (connector_id, user_id) do update set email = excluded.email;

-- name: audiences_of_users
-- The audiences that one of the accounts is part of.
select key from connector_audience where connector_id = %(connector)s and users && %(users)s::text[] order by key;

-- name: matching_users
-- Accounts without an address, each with that of the one active user whom the identity provider knows by its id or name.
select i.user_id, min(i.name) as name, min(u.email) as email
  from connector_identity i join connector c on c.id = i.connector_id
  join user_account u on u.org_id = c.org_id and u.active
   and (lower(u.user_name) in (lower(i.user_id), lower(i.name)) or u.email in (lower(i.user_id), lower(i.name))
        or u.external_id = i.user_id)
 where i.connector_id = %(connector)s and i.email is null
 group by i.user_id having count(*) = 1 order by i.user_id;
