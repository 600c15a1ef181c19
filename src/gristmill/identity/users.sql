-- name: insert_user
-- Creates a user, unless the address or the name is taken.
insert into user_account (org_id, user_name, email, name, role, active, source, external_id, subject, password_hash)
values (%(org)s, %(user_name)s, %(email)s, %(name)s, %(role)s, %(active)s, %(source)s, %(external_id)s, %(subject)s,
        %(password_hash)s)
on conflict do nothing
returning id, org_id, user_name, email, name, role, active, source, external_id, password_hash is not null as has_password,
          signed_in_at, created_at, updated_at;

-- name: change_user
-- Changes all of a user but the password and the subject.
update user_account
   set user_name = %(user_name)s, email = %(email)s, name = %(name)s, role = %(role)s, active = %(active)s,
       source = %(source)s, external_id = %(external_id)s, updated_at = clock_now()
 where id = %(id)s and org_id = %(org)s
returning id, org_id, user_name, email, name, role, active, source, external_id, password_hash is not null as has_password,
          signed_in_at, created_at, updated_at;

-- name: find_user
-- One user.
select id, org_id, user_name, email, name, role, active, source, external_id, password_hash is not null as has_password,
       signed_in_at, created_at, updated_at
  from user_account where id = %(id)s and org_id = %(org)s;

-- name: lock_user
-- One user, locked until the transaction ends.
select id, org_id, user_name, email, name, role, active, source, external_id, password_hash is not null as has_password,
       signed_in_at, created_at, updated_at
  from user_account where id = %(id)s and org_id = %(org)s for no key update;

-- name: find_user_by_email
-- The user with this address.
select id, org_id, user_name, email, name, role, active, source, external_id, password_hash is not null as has_password,
       signed_in_at, created_at, updated_at
  from user_account where org_id = %(org)s and email = lower(%(value)s);

-- name: find_user_by_user_name
-- The user with this name at the identity provider.
select id, org_id, user_name, email, name, role, active, source, external_id, password_hash is not null as has_password,
       signed_in_at, created_at, updated_at
  from user_account where org_id = %(org)s and lower(user_name) = lower(%(value)s);

-- name: find_user_by_external_id
-- The user with this external id.
select id, org_id, user_name, email, name, role, active, source, external_id, password_hash is not null as has_password,
       signed_in_at, created_at, updated_at
  from user_account where org_id = %(org)s and external_id = %(value)s;

-- name: find_user_by_subject
-- The user with this subject at the OpenID provider.
select id, org_id, user_name, email, name, role, active, source, external_id, password_hash is not null as has_password,
       signed_in_at, created_at, updated_at
  from user_account where org_id = %(org)s and subject = %(value)s;

-- name: list_users
-- Users of an organisation, oldest first, after a cursor; with text, those who have it in their name or address.
select id, org_id, user_name, email, name, role, active, source, external_id, password_hash is not null as has_password,
       signed_in_at, created_at, updated_at
  from user_account
 where org_id = %(org)s and (%(after)s::uuid is null or id > %(after)s)
   and (%(text)s::text is null or strpos(lower(name), lower(%(text)s)) > 0 or strpos(email, lower(%(text)s)) > 0)
 order by id limit %(limit)s;

-- name: users_page
-- Users of an organisation, oldest first, from a position; SCIM counts positions.
select id, org_id, user_name, email, name, role, active, source, external_id, password_hash is not null as has_password,
       signed_in_at, created_at, updated_at
  from user_account where org_id = %(org)s order by id offset %(offset)s limit %(limit)s;

-- name: count_users
-- The number of users of an organisation.
select count(*) from user_account where org_id = %(org)s;

-- name: users_of
-- Those of these users that belong to the organisation.
select id, org_id, user_name, email, name, role, active, source, external_id, password_hash is not null as has_password,
       signed_in_at, created_at, updated_at
  from user_account where org_id = %(org)s and id = any (%(ids)s::uuid[]) order by id;

-- name: delete_user
-- Deletes a user and, by foreign key, their keys, sessions and memberships.
delete from user_account where id = %(id)s and org_id = %(org)s returning id;

-- name: set_password
-- Gives a user another password.
update user_account set password_hash = %(password_hash)s, updated_at = clock_now()
 where id = %(id)s and org_id = %(org)s returning id;

-- name: find_password
-- The password of an active user, by address or name.
select id, password_hash from user_account
 where org_id = %(org)s and active and password_hash is not null
   and (email = lower(%(login)s) or lower(user_name) = lower(%(login)s))
 order by email = lower(%(login)s) desc limit 1;

-- name: link_subject
-- Records the subject of a user at the OpenID provider, unless they have another one.
update user_account set subject = %(subject)s
 where id = %(id)s and (subject is null or subject = %(subject)s) returning id;

-- name: record_sign_in
-- Records that an active user signed in, and locks them: whoever deactivates them at this moment ends the new session too.
update user_account set signed_in_at = clock_now() where id = %(id)s and active returning id;

-- name: find_active_user
-- A user with all groups, also those of tools, unless they are not active.
select u.id, u.org_id, u.user_name, u.email, u.name, u.role, u.active, u.source, u.external_id,
       u.password_hash is not null as has_password, u.signed_in_at, u.created_at, u.updated_at,
       array(select user_groups(u.id)) as groups,
       array(select t.id::text from tool_groups_of(u.org_id, lower(u.email)) t) as tool_groups
  from user_account u where u.id = %(id)s and u.active;

-- name: find_member
-- The user of an address with all groups, also those of tools, active or not.
select u.id, u.org_id, u.user_name, u.email, u.name, u.role, u.active, u.source, u.external_id,
       u.password_hash is not null as has_password, u.signed_in_at, u.created_at, u.updated_at,
       array(select user_groups(u.id)) as groups,
       array(select t.id::text from tool_groups_of(u.org_id, lower(u.email)) t) as tool_groups
  from user_account u where u.org_id = %(org)s and u.email = lower(%(email)s);

-- name: find_user_by_session
-- The user of a session with all groups, also those of tools, unless the session has expired or was idle too long, or the user is not active.
with found as materialized (
    select s.hash, s.user_id from session s
     where s.hash = %(hash)s and s.expires_at > clock_now() and s.last_used_at > clock_now() - %(idle)s::interval),
touched as (
    update session s set last_used_at = clock_now() from found
     where s.hash = found.hash and s.last_used_at < clock_now() - interval '1 minute')
select u.id, u.org_id, u.user_name, u.email, u.name, u.role, u.active, u.source, u.external_id,
       u.password_hash is not null as has_password, u.signed_in_at, u.created_at, u.updated_at,
       array(select user_groups(u.id)) as groups,
       case when u.role = 'admin' then '{}' else array(select t.id::text from tool_groups_of(u.org_id, lower(u.email)) t) end as tool_groups
  from found join user_account u on u.id = found.user_id and u.active;

-- name: open_user_session
-- Opens a browser session of a user.
insert into session (hash, user_id, expires_at) values (%(hash)s, %(user)s, clock_now() + %(life)s);

-- name: end_user_sessions
-- Ends the sessions of a user and those that their keys opened, except for one.
delete from session s
 where (s.user_id = %(user)s or s.key_id in (select k.id from api_key k where k.user_id = %(user)s))
   and (%(except)s::bytea is null or s.hash <> %(except)s);

-- name: has_passwords
-- Whether an active user has a password.
select exists (select from user_account where password_hash is not null and active);

-- name: has_active_admin
-- Whether an active user is an admin.
select exists (select from user_account where role = 'admin' and active);

-- name: sweep_pending_sign_ins
-- Deletes sign-ins that did not come back.
delete from pending_sign_in where expires_at <= clock_now();

-- name: begin_sign_in
-- Records a sign-in that goes to the OpenID provider.
insert into pending_sign_in (state, browser, nonce, verifier, next_path, expires_at)
values (%(state)s, %(browser)s, %(nonce)s, %(verifier)s, %(next_path)s, clock_now() + %(life)s);

-- name: take_sign_in
-- A sign-in that has come back, in the browser where it began; it can't be used again.
delete from pending_sign_in where state = %(state)s and browser = %(browser)s and expires_at > clock_now()
returning nonce, verifier, next_path;
