-- Documents of a run that got no response (unanswered.py).

-- name: has_unanswered
-- Whether documents of this run got no response.
select exists (select from connector_failure
                where connector_id = %(connector)s and run_id = %(run)s and error_code = 'connector_unavailable');

-- name: reset_unanswered
-- Makes the documents of this run that got no response unread again.
update connector_failure set error_code = 'not_read_yet', error_message = %(message)s
 where connector_id = %(connector)s and run_id = %(run)s and error_code = 'connector_unavailable';
