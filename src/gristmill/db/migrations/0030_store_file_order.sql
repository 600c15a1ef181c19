-- Files of a store are listed in the order of their ids, so that a page can begin after one that was deleted.
create index item_file_order on item (base_id, (coalesce(file_id, id))) where not is_container;
