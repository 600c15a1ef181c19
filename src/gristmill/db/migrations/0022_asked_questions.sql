-- Bases can keep what people search for, so that the comparison of two embedders can ask it again.
create table asked_question (
    id              uuid not null default uuidv7(),
    base_id         uuid not null references base on delete cascade,
    digest          bytea not null,
    question        text not null,
    times           int not null default 1,
    best_score      real,
    asked_at        timestamptz not null default clock_now(),
    primary key (base_id, digest)
);
create unique index asked_question_latest on asked_question (base_id, id desc);
create index asked_question_asked on asked_question (asked_at);
