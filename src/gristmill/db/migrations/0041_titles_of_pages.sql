-- Pages that no one named have the title that they give themselves. Those so far are recognised by their address.
alter table item add column titled_by_source boolean not null default false;
update item set titled_by_source = true, title = coalesce(document ->> 'title', title)
 where type = 'url' and title = left(source ->> 'url', 500) and status <> 'deleting';
