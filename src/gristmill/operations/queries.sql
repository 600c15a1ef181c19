-- name: find_stuck_items
-- Active items without a living job. A listed container needs none: its active children decide its status.
select i.id, i.base_id from item i join base b on b.id = i.base_id
 where i.is_active and b.status <> 'deleting'
   and not exists (select from job j where j.subject = i.id and j.state <> 'dead'
                      and (j.payload ->> 'version')::int = i.wanted_version)
   and not (i.is_container and i.expanded_version >= i.wanted_version and exists (
       select from item c where c.parent_id = i.id and c.is_active))
   and (%(base)s::uuid is null or i.base_id = %(base)s)
 order by i.id limit %(limit)s;

-- name: find_running_for_deleted
-- Items being deleted that running jobs of a lane work on.
select j.subject from job j join item i on i.id = j.subject
 where j.lane = %(lane)s and j.state = 'running' and i.status = 'deleting';

-- name: find_waiting_for_deleted
-- Items being deleted that waiting jobs of a lane are about.
select j.subject from job j join item i on i.id = j.subject
 where j.lane = %(lane)s and j.state in ('queued', 'delayed') and i.status = 'deleting' limit %(limit)s;

-- name: find_dead_for_deleted
-- Items being deleted that dead jobs of a lane are about.
select distinct j.subject from job j join item i on i.id = j.subject
 where j.lane = %(lane)s and j.state = 'dead' and i.status = 'deleting';

-- name: find_parked_items
-- Items whose indexing was interrupted in a base that does not resume by itself.
select id from item where base_id = %(base)s and status = 'failed' and error_code = 'interrupted' order by id limit %(limit)s;

-- name: find_busy_items
-- One of these items that living jobs are about.
select j.subject from job j where j.subject = any (%(ids)s::uuid[]) and j.state <> 'dead' limit 1;

-- name: find_living_jobs
-- The living jobs of a kind in a lane.
select j.id from job j where j.lane = %(lane)s and j.kind = %(kind)s and j.state <> 'dead';
