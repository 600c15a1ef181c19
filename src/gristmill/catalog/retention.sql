-- name: find_retention
-- How long a base keeps things.
select base_id, document_days, version_days, event_days, updated_at, audit_days from retention where base_id = %(base)s;

-- name: put_retention
-- Sets how long a base keeps things.
insert into retention (base_id, document_days, version_days, event_days, audit_days)
values (%(base)s, %(documents)s, %(versions)s, %(events)s, %(audit)s)
on conflict (base_id) do update
   set document_days = excluded.document_days, version_days = excluded.version_days, event_days = excluded.event_days,
       audit_days = excluded.audit_days, updated_at = clock_now();

-- name: list_retention
-- The bases that keep things for a limited time.
select r.base_id, r.document_days, r.version_days, r.event_days, r.updated_at, r.audit_days from retention r
  join base b on b.id = r.base_id
 where b.status <> 'deleting' order by r.base_id;

-- name: find_expired_documents
-- Documents whose content has not changed for as many days, and that no hold covers. Attachments go with their documents.
select i.id from item i
  left join item p on p.id = i.parent_id
  left join item_version v on v.item_id = i.id and v.version = i.live_version
 where i.base_id = %(base)s and not i.is_container and not i.is_active and i.status <> 'deleting'
   and (p.id is null or p.is_container)
   and coalesce(v.changed_at, i.updated_at) < clock_now() - make_interval(days => %(days)s)
   and not exists (select from held_roots(%(base)s, array[i.id]))
 order by i.id limit %(limit)s;

-- name: insert_hold
-- Places a legal hold on an item or a base.
insert into legal_hold (org_id, base_id, item_id, title, reason, placed_by)
values (%(org)s, %(base)s, %(item)s, %(title)s, %(reason)s, %(actor)s)
returning id, org_id, base_id, item_id, title, reason, placed_by, placed_at, lifted_by, lifted_at;

-- name: list_holds
-- The legal holds of an organisation, or of one of its bases, the newest first; with those that were lifted, if wanted.
select id, org_id, base_id, item_id, title, reason, placed_by, placed_at, lifted_by, lifted_at from legal_hold
 where org_id = %(org)s and (%(base)s::uuid is null or base_id = %(base)s)
   and (%(lifted)s or lifted_at is null) and (%(before)s::uuid is null or id < %(before)s)
 order by id desc limit %(limit)s;

-- name: find_hold
-- A legal hold, lifted or not.
select id, org_id, base_id, item_id, title, reason, placed_by, placed_at, lifted_by, lifted_at from legal_hold where id = %(id)s;

-- name: lift_hold
-- placed -> lifted.
update legal_hold set lifted_at = clock_now(), lifted_by = %(actor)s where id = %(id)s and lifted_at is null
returning id, org_id, base_id, item_id, title, reason, placed_by, placed_at, lifted_by, lifted_at;

-- name: find_held_roots
-- Those of subtrees of a base in which a hold covers something.
select held_roots(%(base)s, %(roots)s::uuid[]);

-- name: has_hold
-- Whether a hold covers something of a base.
select exists (select from legal_hold where base_id = %(base)s and lifted_at is null);

-- name: record_deleted_items
-- Notes that items, with their live and kept versions, are deleted.
insert into deletion_record (org_id, base_id, base_name, item_id, type, title, source, version, size_bytes, content_hash, original_hash,
                             reason, actor, job_id, requested_at)
select b.org_id, b.id, b.name, i.id, i.type, case when i.type <> 'note' then i.title end,
       case when i.type <> 'note' then coalesce(i.source ->> 'path', i.source ->> 'url', i.source ->> 'name') end,
       v.version, i.size_bytes, v.content_hash,
       case when v.version is null or v.version = i.live_version then coalesce(i.blob_hash, v.original) else v.original end,
       %(reason)s, %(actor)s, %(job)s, coalesce((select j.created_at from job j where j.id = %(job)s), clock_now())
  from item i
  join base b on b.id = i.base_id
  left join item_version v on v.item_id = i.id and (v.version = i.live_version or v.replaced_at is not null)
 where i.id = any (%(ids)s::uuid[]);

-- name: record_deleted_versions
-- Notes that kept versions are deleted.
insert into deletion_record (org_id, base_id, base_name, item_id, type, title, source, version, content_hash, original_hash, reason, actor,
                             requested_at)
select b.org_id, b.id, b.name, i.id, i.type, case when i.type <> 'note' then i.title end,
       case when i.type <> 'note' then coalesce(i.source ->> 'path', i.source ->> 'url', i.source ->> 'name') end,
       v.version, v.content_hash, v.original, 'retention', 'retention', clock_now()
  from unnest(%(items)s::uuid[], %(versions)s::int[]) u(item, version)
  join item_version v on v.item_id = u.item and v.version = u.version
  join item i on i.id = v.item_id
  join base b on b.id = i.base_id;

-- name: list_deletions
-- What was deleted, the oldest first.
select id, base_id, base_name, item_id, type, title, source, version, size_bytes, content_hash, original_hash, reason, actor, job_id,
       requested_at, removed_at
  from deletion_record
 where org_id = %(org)s and (%(base)s::uuid is null or base_id = %(base)s)
   and (%(since)s::timestamptz is null or removed_at >= %(since)s) and (%(until)s::timestamptz is null or removed_at < %(until)s)
   and (%(after)s::uuid is null or id > %(after)s)
 order by id limit %(limit)s;
