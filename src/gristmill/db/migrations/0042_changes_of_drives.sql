-- One worker at a time renews a secret that its tool replaces when it is used.
create table connector_renewal (
    connector_id    uuid primary key references connector on delete cascade,
    lease           uuid not null,
    expires_at      timestamptz not null
);
-- Tools that report what changed: documents that are gone without a complete listing, and those below a changed folder.
alter table connector_document add column missing boolean not null default false;
alter table connector_document add column folders jsonb not null default '{}';
update connector_document d set missing = true
  from connector_stream s
 where s.connector_id = d.connector_id and s.scope = d.scope and s.kind = d.kind and s.listed and d.seen < s.listing;
create index connector_document_folders on connector_document using gin (folders) where folders <> '{}';
