-- A file that was deleted here stays deleted when it is moved: its exclusion knows it by its fingerprint.
alter table exclusion add column fingerprint text;
