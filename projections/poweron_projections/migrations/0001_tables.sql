-- What the log adds up to. Names stand without a schema: `search_path` says whether these are the live tables,
-- a shadow that a rebuild fills, or the temporary ones that `verify` compares with.
-- Numbers without a natural limit are bigint; times are the broker's, in ms since 1970.

CREATE TABLE projection (
    version integer NOT NULL
);

CREATE TABLE offsets (
    topic       text    NOT NULL,
    partition   integer NOT NULL,
    next_offset bigint  NOT NULL,
    PRIMARY KEY (topic, partition)
) WITH (fillfactor = 50);

CREATE TABLE records (
    partition    integer NOT NULL,
    log_offset   bigint  NOT NULL,
    workflow_id  uuid,
    seq          integer,
    type         text,
    verdict      text    NOT NULL,
    event_id     uuid,
    causation_id uuid,
    time_ms      bigint  NOT NULL,
    sha256       bytea   NOT NULL,
    key          bytea,
    compressed   bytea,
    PRIMARY KEY (partition, log_offset),
    UNIQUE (workflow_id, seq)
);

CREATE INDEX records_retained ON records (workflow_id) WHERE type = 'poweron.workflow.retained.v1';

CREATE TABLE workflows (
    workflow_id uuid    NOT NULL PRIMARY KEY,
    partition   integer NOT NULL,
    status      text    NOT NULL,
    phase       text    NOT NULL,
    stopped_by  text,
    round       integer NOT NULL,
    task        integer NOT NULL,
    attempt     integer NOT NULL,
    step        integer NOT NULL,
    is_open     boolean NOT NULL,
    frozen      boolean NOT NULL,
    stuck       boolean NOT NULL,
    seq         integer NOT NULL,
    last_offset bigint  NOT NULL,
    opened_ms   bigint  NOT NULL,
    updated_ms  bigint  NOT NULL,
    paused_ms   bigint,
    pause_reason text,
    pause_actor jsonb,
    budget_question integer,
    budget_code text,
    budget_reason text,
    budget_due_ms bigint,
    budget_terms jsonb,
    forked_from text,
    forked_seq  integer,
    restarted_from text
) WITH (fillfactor = 70);

CREATE INDEX workflows_restarted ON workflows (restarted_from) WHERE restarted_from IS NOT NULL;

CREATE INDEX workflows_newest ON workflows (opened_ms DESC, workflow_id DESC);
CREATE INDEX workflows_open ON workflows (partition) WHERE is_open;

CREATE TABLE rounds (
    workflow_id    uuid    NOT NULL,
    round          integer NOT NULL,
    opening_offset bigint  NOT NULL,
    opening_seq    integer NOT NULL,
    mode           text    NOT NULL,
    prompt         text    NOT NULL,
    max_steps      integer NOT NULL,
    request_source text    NOT NULL,
    request_id     text    NOT NULL,
    requester      text,
    actor          jsonb,
    policy_number  integer,
    policy_sha256  text,
    status         text    NOT NULL,
    reason         text    NOT NULL,
    stopped_by     text,
    message        text,
    steps          integer NOT NULL,
    input_tokens   bigint  NOT NULL,
    output_tokens  bigint  NOT NULL,
    cost_nano_usd  bigint  NOT NULL,
    opened_ms      bigint  NOT NULL,
    ended_ms       bigint,
    ended_seq      integer,
    PRIMARY KEY (workflow_id, round)
) WITH (fillfactor = 70);

CREATE INDEX rounds_open ON rounds (workflow_id) WHERE ended_seq IS NULL;
CREATE INDEX rounds_opened ON rounds USING brin (opened_ms);
CREATE INDEX rounds_words ON rounds USING gin (
    to_tsvector('simple', left(prompt, 50000) || ' ' || left(COALESCE(message, ''), 50000))
); -- longer texts could exceed the size of a tsvector

CREATE TABLE tasks (
    workflow_id       uuid    NOT NULL,
    round             integer NOT NULL,
    task              integer NOT NULL,
    objective         text    NOT NULL,
    task_type         text    NOT NULL,
    success_criteria  jsonb   NOT NULL,
    status            text    NOT NULL,
    attempts          integer NOT NULL,
    retries           integer NOT NULL,
    actions           integer NOT NULL,
    tokens            bigint  NOT NULL,
    criteria_progress jsonb   NOT NULL,
    reason            text    NOT NULL,
    stopped_by        text,
    started_ms        bigint,
    ended_ms          bigint,
    PRIMARY KEY (workflow_id, round, task)
) WITH (fillfactor = 70);

CREATE TABLE steps (
    workflow_id     uuid    NOT NULL,
    round           integer NOT NULL,
    task            integer NOT NULL,
    attempt         integer NOT NULL,
    step            integer NOT NULL,
    status          text    NOT NULL,
    action          text,
    objective       text,
    parameters      jsonb,
    approval        text,
    approval_sha256 text,
    approval_by     text,
    approval_actor  jsonb,
    approval_reason text,
    approval_ms     bigint,
    approval_due_ms bigint,
    approval_answered_ms bigint,
    approval_terms  jsonb,
    escalation_due_ms bigint,
    refusals        jsonb   NOT NULL,
    tries           integer NOT NULL,
    claimed_ms      bigint,
    claims          jsonb   NOT NULL,
    success         boolean,
    outcome         text,
    error           text,
    error_code      text,
    result_label    text,
    decision        text,
    decision_reason text,
    classification  text,
    hint            text,
    stopped_by      text,
    input_tokens    bigint  NOT NULL,
    output_tokens   bigint  NOT NULL,
    cost_nano_usd   bigint  NOT NULL,
    duration_ms     bigint,
    begun_ms        bigint  NOT NULL,
    started_ms      bigint  NOT NULL,
    selected_ms     bigint,
    parameterized_ms bigint,
    completed_ms    bigint,
    observed_ms     bigint,
    refined_ms      bigint,
    ended_ms        bigint,
    reviewed_ms     bigint,
    PRIMARY KEY (workflow_id, round, task, attempt, step)
) WITH (fillfactor = 85);

CREATE TABLE messages (
    workflow_id     uuid    NOT NULL,
    seq             integer NOT NULL,
    round           integer NOT NULL,
    task            integer NOT NULL,
    attempt         integer NOT NULL,
    step            integer NOT NULL,
    kind            text    NOT NULL,
    status          text    NOT NULL,
    action          text,
    success         boolean,
    message         text    NOT NULL,
    summary         text    NOT NULL,
    documents_label text,
    documents       jsonb   NOT NULL,
    error           text    NOT NULL,
    told            text,
    findings        jsonb   NOT NULL,
    links           jsonb   NOT NULL,
    unread          jsonb   NOT NULL,
    unread_left_out bigint  NOT NULL,
    learnings       jsonb   NOT NULL,
    actor           jsonb,
    time_ms         bigint  NOT NULL,
    PRIMARY KEY (workflow_id, seq)
);

CREATE TABLE documents (
    workflow_id   uuid    NOT NULL,
    seq           integer NOT NULL,
    position      integer NOT NULL,
    round         integer NOT NULL,
    label         text    NOT NULL,
    document_id   text    NOT NULL,
    document_name text    NOT NULL,
    mime_type     text    NOT NULL,
    size          bigint  NOT NULL,
    content       text    NOT NULL,
    page          jsonb,
    sources       jsonb   NOT NULL,
    by_model      boolean NOT NULL,
    time_ms       bigint  NOT NULL,
    PRIMARY KEY (workflow_id, seq, position)
);

CREATE TABLE usage (
    workflow_id         uuid    NOT NULL,
    seq                 integer NOT NULL,
    position            integer NOT NULL,
    verdict             text    NOT NULL,
    type                text    NOT NULL,
    stage               text    NOT NULL,
    refused             boolean NOT NULL,
    round               integer NOT NULL,
    task                bigint  NOT NULL,
    attempt             bigint  NOT NULL,
    step                bigint  NOT NULL,
    time_ms             bigint  NOT NULL,
    provider            text    NOT NULL,
    model               text    NOT NULL,
    template            text    NOT NULL,
    template_sha256     text    NOT NULL,
    prompt_ref          text,
    answer_ref          text,
    input_tokens        bigint  NOT NULL,
    output_tokens       bigint  NOT NULL,
    cached_input_tokens bigint  NOT NULL,
    reasoning_tokens    bigint  NOT NULL,
    cost_nano_usd       bigint  NOT NULL,
    duration_ms         bigint  NOT NULL,
    tries               bigint  NOT NULL,
    finish_reason       text,
    code                text,
    usage_estimated     boolean NOT NULL,
    PRIMARY KEY (workflow_id, seq, position)
);

CREATE INDEX usage_time ON usage USING brin (time_ms);

CREATE TABLE requests (
    source      text    NOT NULL,
    id          text    NOT NULL,
    workflow_id uuid    NOT NULL,
    seq         integer NOT NULL,
    type        text    NOT NULL,
    answer      text    NOT NULL,
    round       bigint,
    reason      text,
    code        text,
    detail      text    NOT NULL,
    requester   text,
    actor       jsonb,
    time_ms     bigint  NOT NULL,
    PRIMARY KEY (source, id, workflow_id, seq)
);

CREATE TABLE dead_letters (
    topic      text    NOT NULL,
    partition  integer NOT NULL,
    log_offset bigint  NOT NULL,
    reason     text    NOT NULL,
    size       bigint  NOT NULL,
    raw        bytea,
    time_ms    bigint  NOT NULL,
    PRIMARY KEY (topic, partition, log_offset)
);

CREATE TABLE policies (
    workflow_id uuid    NOT NULL,
    number      integer NOT NULL,
    seq         integer NOT NULL,
    sha256      text    NOT NULL,
    previous    text,
    name        text    NOT NULL,
    policy      jsonb   NOT NULL,
    reason      text    NOT NULL,
    actor       jsonb   NOT NULL,
    time_ms     bigint  NOT NULL,
    PRIMARY KEY (workflow_id, number)
);

CREATE TABLE instances (
    workflow_id uuid   NOT NULL,
    instance    text   NOT NULL,
    release     text   NOT NULL,
    roles       jsonb  NOT NULL,
    record      jsonb  NOT NULL,
    started_ms  bigint NOT NULL,
    ended_ms    bigint,
    PRIMARY KEY (workflow_id)
);

CREATE TABLE ledger_entries (
    place       bigint  NOT NULL PRIMARY KEY,
    leaf        bytea   NOT NULL,
    kind        text    NOT NULL,
    workflow_id uuid,
    seq         integer,
    entry       bytea
);

CREATE INDEX ledger_entries_seq ON ledger_entries (workflow_id, seq) WHERE workflow_id IS NOT NULL;
CREATE INDEX ledger_entries_kind ON ledger_entries (kind, place) WHERE kind <> 'event';

CREATE TABLE ledger_subtrees (
    level integer NOT NULL,
    place bigint  NOT NULL,
    hash  bytea   NOT NULL,
    PRIMARY KEY (level, place)
);

CREATE TABLE ledger_positions (
    partition   integer NOT NULL PRIMARY KEY,
    next_offset bigint  NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE ledger_checkpoints (
    log_offset bigint NOT NULL PRIMARY KEY,
    size       bigint,
    root       bytea,
    time_ms    bigint NOT NULL,
    note       text   NOT NULL
);

CREATE INDEX ledger_checkpoints_size ON ledger_checkpoints (size DESC, log_offset DESC) WHERE size IS NOT NULL;
