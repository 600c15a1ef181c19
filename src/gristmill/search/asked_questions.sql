-- What people have searched bases for, where their owners keep it.

-- name: keep_question
-- Keeps a question of the bases whose owners want that; of too many in a base, the oldest go.
with keeping as ( -- their rows are locked, so that a change of the setting comes before or after
    select b.id from base b
     where b.id = any (%(bases)s::uuid[]) and b.settings ->> 'questions' = 'keep' and b.status <> 'deleting'
     order by b.id for share of b
), surplus as (
    delete from asked_question q
     where q.base_id in (select id from keeping) and q.digest <> %(digest)s
       and q.id <= (select o.id from asked_question o where o.base_id = q.base_id order by o.id desc offset %(max)s - 1 limit 1)
)
insert into asked_question (base_id, digest, question, best_score)
select id, %(digest)s, %(question)s, %(best_score)s from keeping
on conflict (base_id, digest) do update
   set id = uuidv7(), times = asked_question.times + 1, best_score = excluded.best_score, asked_at = clock_now();

-- name: list_questions
-- The questions of a base, the latest first.
select id, question, times, best_score, asked_at from asked_question
 where base_id = %(base)s and (%(before)s::uuid is null or id < %(before)s) order by id desc limit %(limit)s;

-- name: delete_questions
-- Forgets the questions of a base.
delete from asked_question where base_id = %(base)s;

-- name: delete_old_questions
-- Forgets questions that were asked longer ago than the retention.
delete from asked_question where asked_at < clock_now() - %(retention)s::interval;
