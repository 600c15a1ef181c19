-- Documents have marks: tools that list ETags, revisions or hashes are read without a watermark.
alter table connector_document add column mark text;
alter table connector_failure add column content_mark text;
