-- An organisation can choose the embedder of its new bases.
create table default_embedder (
    org_id      uuid primary key references organisation,
    name        text not null
);
