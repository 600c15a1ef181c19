-- Where the text of PDF pages and images stands on its page. Contents that were read before have none until they are read again.
alter table content_part add column boxes bytea;
