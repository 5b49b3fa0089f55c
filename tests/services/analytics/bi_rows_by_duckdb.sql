-- What the views of `bi` are to say, counted by DuckDB in the events alone: none of our rows is read.
-- Each view has its counterpart here, with its name and its columns. Times are milliseconds since 1970, money is
-- nano-dollars.

CREATE TABLE log AS
SELECT *, regexp_extract(type, '^poweron\.(.+)\.v\d+$', 1) AS kind,
       COALESCE(data.round, 0) AS round, COALESCE(data.task, 0) AS task,
       COALESCE(data.attempt, 0) AS attempt, COALESCE(data.step, 0) AS step
  FROM read_json('{events}', format = 'newline_delimited', columns = {
       workflow: 'VARCHAR', seq: 'BIGINT', time_ms: 'BIGINT', verdict: 'VARCHAR', type: 'VARCHAR', id: 'VARCHAR',
       sha256: 'VARCHAR', cause: 'STRUCT(id VARCHAR, sha256 VARCHAR, "offset" BIGINT)', data: 'STRUCT(
           round BIGINT, task BIGINT, attempt BIGINT, step BIGINT, "try" BIGINT, stage VARCHAR, status VARCHAR,
           code VARCHAR, reason VARCHAR, request STRUCT(id VARCHAR), requester STRUCT(name VARCHAR),
           actor STRUCT(id VARCHAR, kind VARCHAR, via VARCHAR, verified BOOLEAN), decision VARCHAR, classification VARCHAR, action VARCHAR, success BOOLEAN, outcome VARCHAR,
           durationMs BIGINT, effectClass VARCHAR, expiresMs BIGINT, workflowMode VARCHAR, maxSteps BIGINT,
           maxRetries BIGINT, forkedFrom STRUCT(workflow VARCHAR, seq BIGINT), observation STRUCT(success BOOLEAN),
           tasks STRUCT(taskType VARCHAR, maxSteps BIGINT)[],
           documents STRUCT(mimeType VARCHAR, size BIGINT, byModel BOOLEAN, page STRUCT(url VARCHAR),
                            sources STRUCT(n BIGINT)[])[],
           modelCall STRUCT(provider VARCHAR, model VARCHAR, inputTokens BIGINT, outputTokens BIGINT,
                            cachedInputTokens BIGINT, reasoningTokens BIGINT, costNanoUsd BIGINT, durationMs BIGINT,
                            tries BIGINT, finishReason VARCHAR, usageEstimated BOOLEAN, reservations BIGINT[]),
           modelCalls STRUCT(provider VARCHAR, model VARCHAR, inputTokens BIGINT, outputTokens BIGINT,
                             cachedInputTokens BIGINT, reasoningTokens BIGINT, costNanoUsd BIGINT, durationMs BIGINT,
                             tries BIGINT, finishReason VARCHAR, usageEstimated BOOLEAN, reservations BIGINT[])[],
           failedCalls STRUCT(code VARCHAR, count BIGINT, inputTokens BIGINT, outputTokens BIGINT,
                              costNanoUsd BIGINT, durationMs BIGINT, usageEstimated BOOLEAN, reservations BIGINT[])[],
           reservation BIGINT, inputTokens BIGINT, outputTokens BIGINT, costNanoUsd BIGINT)'});

CREATE TABLE letters AS SELECT * FROM read_json('{dead}', format = 'newline_delimited', columns = {
    topic: 'VARCHAR', partition: 'BIGINT', log_offset: 'BIGINT', size: 'BIGINT', time_ms: 'BIGINT'
});

-- What had an effect.
CREATE TABLE told AS
SELECT *, kind = 'action.completed' AND data.outcome = 'not_begun' AND COALESCE(data.code = 'paused', FALSE) AS gave_up
  FROM log
 WHERE verdict = 'accepted'
   AND kind NOT IN ('request.refused', 'document.erased', 'call.reserved', 'round.paused', 'round.resumed',
                    'rules.changed', 'policy.applied', 'instance.started', 'instance.ended');

-- Each pause, and what ended it: a resumption, a cancellation or the end of its round.
CREATE TABLE pauses AS
SELECT each.workflow, each.round, each.seq, each.time_ms AS since, min(ending.seq) AS end_seq,
       min_by(ending.time_ms, ending.seq) AS until, min_by(ending.kind, ending.seq) AS ended_by
  FROM log AS each
  LEFT JOIN log AS ending
    ON ending.workflow = each.workflow AND ending.round = each.round AND ending.seq > each.seq
   AND ending.verdict = 'accepted'
   AND ending.kind IN ('round.resumed', 'cancellation.requested', 'round.completed', 'round.failed', 'round.cancelled')
 WHERE each.verdict = 'accepted' AND each.kind = 'round.paused'
 GROUP BY ALL;

CREATE TABLE openings AS
SELECT workflow, round, seq, time_ms AS opened_ms, data.workflowMode AS mode, data.maxSteps AS max_steps,
       data.maxRetries AS max_retries, data.forkedFrom AS forked, data.requester.name AS requester,
       data.actor AS actor
  FROM told WHERE kind IN ('workflow.requested', 'round.requested');

CREATE TABLE forks AS SELECT workflow FROM openings WHERE round = 1 AND forked IS NOT NULL;

CREATE MACRO login(name) AS
CASE WHEN regexp_full_match(name, '[A-Za-z0-9._@+-]{1,64}') THEN name WHEN name <> '' THEN 'other' END;

CREATE TABLE plans AS
SELECT workflow, round, time_ms, unnest(data.tasks) AS plan, generate_subscripts(data.tasks, 1) AS task,
       len(data.tasks) AS planned
  FROM told WHERE kind = 'tasks.planned';

-- Each retry that was asked for while there were steps, and whether the limit of retries still allowed it.
CREATE TABLE retried AS
SELECT workflow, round, task, told.seq, kind,
       row_number() OVER (PARTITION BY workflow, round, task ORDER BY told.seq) <= max_retries AS allowed
  FROM told JOIN openings USING (workflow, round) JOIN plans USING (workflow, round, task)
 WHERE (kind = 'task.reviewed' AND data.status = 'retry')
    OR (kind = 'refinement.decided' AND data.decision = 'continue' AND data.classification = 'retry'
        AND step < least(max_steps, plan.maxSteps));

-- What each round ends for, from when on it only has to say so; one that was paused then can still be cancelled.
CREATE TABLE closings AS
SELECT workflow, round, min(seq) AS seq, min_by(time_ms, seq) AS time_ms, min_by(kind, seq) AS kind,
       min_by(code, seq) AS code, max_by(code, seq) AS last_code
  FROM (
SELECT workflow, round, seq, told.time_ms AS time_ms, kind,
       CASE kind WHEN 'cancellation.requested' THEN 'cancelled' WHEN 'deadline.passed' THEN 'deadline'
                 ELSE data.code END AS code
  FROM told LEFT JOIN retried USING (workflow, round, task, seq, kind) LEFT JOIN plans USING (workflow, round, task)
 WHERE kind IN ('cancellation.requested', 'deadline.passed', 'stage.failed')
    OR (kind = 'task.reviewed' AND (data.status = 'failed' OR NOT allowed OR (data.status = 'success' AND task = planned)))
  ) GROUP BY ALL;

CREATE TABLE endings AS
SELECT workflow, round, time_ms AS ended_ms, split_part(kind, '.', 2) AS status
  FROM told WHERE kind IN ('round.completed', 'round.failed', 'round.cancelled');

CREATE TABLE calls AS
WITH records AS (
     SELECT *, list_concat(list_filter([data.modelCall], lambda call: call IS NOT NULL), COALESCE(data.modelCalls, []))
            AS answered, COALESCE(data.failedCalls, []) AS failed
       FROM log WHERE verdict IN ('accepted', 'superseded')
), answers AS (
     SELECT *, unnest(answered) AS call, generate_subscripts(answered, 1) - 1 AS position FROM records
), failures AS (
     SELECT *, unnest(failed) AS call, len(answered) + generate_subscripts(failed, 1) - 1 AS position FROM records
), each AS (
     SELECT workflow, seq, position, time_ms, verdict, kind, data.stage AS told, round, task, attempt, step,
            call.provider, call.model, NULL AS code, 1 AS calls, call.tries, call.inputTokens AS input_tokens,
            call.outputTokens AS output_tokens, COALESCE(call.cachedInputTokens, 0) AS cached_input_tokens,
            COALESCE(call.reasoningTokens, 0) AS reasoning_tokens, call.costNanoUsd AS cost_usd,
            COALESCE(call.usageEstimated, FALSE) AS usage_estimated, call.durationMs AS duration_ms,
            call.finishReason AS finish_reason, call.reservations AS reservations
       FROM answers
      UNION ALL
     SELECT workflow, seq, position, time_ms, verdict, kind, data.stage, round, task, attempt, step, '', '', call.code,
            call.count, call.count, call.inputTokens, call.outputTokens, 0, 0, call.costNanoUsd, COALESCE(call.usageEstimated, FALSE),
            call.durationMs, NULL, call.reservations
       FROM failures
)
SELECT each.*,
       CASE WHEN kind = 'tasks.planned' THEN 'plan' WHEN kind = 'actions.planned' THEN 'plan_actions'
            WHEN kind IN ('action.selected', 'selection.rejected') THEN 'select'
            WHEN kind LIKE 'parameters.%' THEN 'parameterize' WHEN kind = 'action.completed' THEN 'execute'
            WHEN kind = 'observation.recorded' THEN 'observe' WHEN kind = 'refinement.decided' THEN 'refine'
            WHEN kind = 'task.reviewed' THEN 'review' ELSE COALESCE(told, 'message') END AS stage,
       CASE WHEN verdict = 'superseded' THEN 'superseded' WHEN code IS NOT NULL THEN 'failed'
            WHEN kind LIKE '%.rejected' THEN 'refused' WHEN attempt < last_attempt THEN 'retried' ELSE 'used' END AS fate
  FROM each LEFT JOIN (
       SELECT workflow, round, task, 1 + count(*) AS last_attempt
         FROM retried WHERE kind = 'task.reviewed' AND allowed GROUP BY ALL
  ) USING (workflow, round, task);

-- What was reserved for calls that no accepted event tells of, which counts as used; the final message is of no task.
CREATE TABLE unsettled AS
SELECT log.workflow, log.round, CASE WHEN closings.seq < log.seq AND NOT COALESCE(runs, FALSE) THEN 0 ELSE log.task END AS task,
       data.inputTokens AS input_tokens, data.outputTokens AS output_tokens, data.costNanoUsd AS cost_usd
  FROM log LEFT JOIN closings USING (workflow, round)
  LEFT JOIN (
       SELECT log.workflow, log.seq, max(told.seq) FILTER (told.kind = 'action.started')
              > COALESCE(max(told.seq) FILTER (told.kind = 'action.completed'), -1) AS runs
         FROM log JOIN told USING (workflow, round) WHERE log.kind = 'call.reserved' AND told.seq < log.seq GROUP BY ALL
  ) AS actions ON actions.workflow = log.workflow AND actions.seq = log.seq
  ANTI JOIN (SELECT workflow, round, unnest(reservations) AS number FROM calls WHERE verdict = 'accepted') AS settled
    ON settled.workflow = log.workflow AND settled.round = log.round AND settled.number = log.data.reservation
 WHERE log.verdict = 'accepted' AND log.kind = 'call.reserved';

-- --- one row for each workflow, round, task, step, call, try, document, approval

CREATE TABLE begun AS
SELECT workflow, round, task, time_ms AS started_ms FROM plans WHERE task = 1
 UNION ALL
SELECT workflow, round, task + 1, told.time_ms
  FROM told JOIN plans USING (workflow, round, task)
 WHERE kind = 'task.reviewed' AND data.status = 'success' AND task < planned;

CREATE TABLE task_ends AS
SELECT workflow, round, task, time_ms AS ended_ms, data.code AS code,
       CASE data.status WHEN 'success' THEN 'success' ELSE 'failed' END AS status
  FROM told LEFT JOIN closings USING (workflow, round, seq, time_ms, kind)
 WHERE kind = 'task.reviewed' AND (data.status = 'success' OR closings.kind IS NOT NULL)
 UNION ALL
SELECT workflow, round, task, closings.time_ms, closings.code, 'stopped'
  FROM closings JOIN (SELECT workflow, round, max(task) AS task FROM begun GROUP BY ALL) USING (workflow, round)
 WHERE kind <> 'task.reviewed';

CREATE TABLE tasks AS
SELECT workflow AS workflow_id, round, task, plan.taskType AS task_type,
       CASE WHEN started_ms IS NULL THEN 'planned' ELSE COALESCE(task_ends.status, 'running') END AS status,
       task_ends.code AS stopped_by,
       CASE WHEN started_ms IS NULL THEN 0 ELSE 1 + COALESCE(attempts, 0) END AS attempts,
       COALESCE(retries, 0) AS retries, COALESCE(actions, 0) AS actions, COALESCE(tokens, 0) AS tokens,
       COALESCE(cost, 0) AS cost_usd, started_ms AS started_at, ended_ms AS ended_at, ended_ms - started_ms AS duration_ms
  FROM plans LEFT JOIN begun USING (workflow, round, task) LEFT JOIN task_ends USING (workflow, round, task)
  LEFT JOIN (
       SELECT workflow, round, task, count(*) AS retries, count(*) FILTER (kind = 'task.reviewed') AS attempts
         FROM retried WHERE allowed GROUP BY ALL
  ) USING (workflow, round, task)
  LEFT JOIN (
       SELECT workflow, round, task, count(*) AS actions FROM told WHERE kind = 'action.selected' GROUP BY ALL
  ) USING (workflow, round, task)
  LEFT JOIN (
       SELECT workflow, round, task, sum(tokens) AS tokens, sum(cost) AS cost FROM (
              SELECT workflow, round, task, input_tokens + output_tokens AS tokens, cost_usd AS cost
                FROM calls WHERE verdict = 'accepted'
               UNION ALL SELECT workflow, round, task, input_tokens + output_tokens, 0 FROM unsettled
       ) GROUP BY ALL
  ) USING (workflow, round, task);

CREATE TABLE step_times AS
SELECT workflow, round, task, attempt, step, min(seq) AS first_seq, min(time_ms) AS noted,
       max(time_ms) FILTER (kind = 'action.selected') AS selected,
       max(data.action) FILTER (kind = 'action.selected') AS action,
       max(time_ms) FILTER (kind = 'parameters.set') AS parameterized,
       max(time_ms) FILTER (kind = 'approval.requested') AS asked,
       max(time_ms + data.expiresMs) FILTER (kind = 'approval.requested') AS due,
       max(time_ms) FILTER (kind IN ('approval.granted', 'approval.denied')) AS answered,
       max(split_part(kind, '.', 2)) FILTER (kind IN ('approval.granted', 'approval.denied')) AS answer,
       max(COALESCE(data.actor.id, data.requester.name)) FILTER (kind IN ('approval.granted', 'approval.denied')) AS approver,
       max(data.actor) FILTER (kind IN ('approval.granted', 'approval.denied')) AS approver_actor,
       min(time_ms) FILTER (kind = 'action.started') AS claimed,
       count(*) FILTER (kind = 'action.started') AS tries, count(*) FILTER (gave_up) AS given_up,
       max(seq) FILTER (kind = 'action.completed' AND NOT gave_up) AS completed_seq,
       max(time_ms) FILTER (kind = 'action.completed' AND NOT gave_up) AS completed,
       max(data.outcome) FILTER (kind = 'action.completed' AND NOT gave_up) AS outcome,
       max(data.code) FILTER (kind = 'action.completed' AND NOT gave_up) AS error_code,
       max(data.durationMs) FILTER (kind = 'action.completed' AND NOT gave_up) AS took,
       COALESCE(max(data.observation.success) FILTER (kind = 'observation.recorded'),
                max(data.success) FILTER (kind = 'action.completed' AND NOT gave_up)) AS success,
       max(time_ms) FILTER (kind = 'observation.recorded') AS observed,
       max(time_ms) FILTER (kind = 'refinement.decided') AS refined,
       max(data.decision) FILTER (kind = 'refinement.decided') AS decision,
       max(data.classification) FILTER (kind = 'refinement.decided') AS classification,
       max(data.code) FILTER (kind = 'refinement.decided') AS refine_code,
       count(*) FILTER (kind IN ('selection.rejected', 'parameters.rejected')) AS refusals,
       max(time_ms) FILTER (kind LIKE '%.rejected' AND data.try = 2) AS refused,
       max_by(data.code, seq) FILTER (kind LIKE '%.rejected' AND data.try = 2) AS refusal_code,
       max(seq) FILTER (kind IN ('refinement.decided', 'observation.recorded')
                        OR (kind LIKE '%.rejected' AND data.try = 2)) AS last_seq
  FROM told
 WHERE step > 0 AND kind NOT IN ('stage.failed', 'answer.rejected') AND kind NOT LIKE 'budget.%'
 GROUP BY ALL;

-- A step ends by itself, or with its round: at once, but where its action runs with the end of that.
CREATE TABLE step_ends AS
SELECT step_times.*, mode, opened_ms, closings.code AS closing_code,
       CASE WHEN refused IS NOT NULL THEN 'refused'
            WHEN CASE mode WHEN 'React' THEN refined ELSE observed END IS NOT NULL THEN 'done'
            WHEN closings.seq IS NULL OR (tries > given_up AND completed_seq IS NULL) THEN 'running'
            ELSE 'stopped' END AS status,
       CASE status WHEN 'refused' THEN refused
                   WHEN 'done' THEN COALESCE(refined, observed)
                   WHEN 'stopped' THEN CASE WHEN completed_seq > closings.seq THEN completed ELSE closings.time_ms END
       END AS ended,
       CASE status WHEN 'running' THEN NULL WHEN 'stopped' THEN greatest(closings.seq, completed_seq)
                   ELSE last_seq END AS ended_seq
  FROM step_times JOIN openings USING (workflow, round) LEFT JOIN closings USING (workflow, round);

-- A step can begin with what made room for it.
CREATE TABLE lived AS
SELECT each.*, due + COALESCE(suspended, 0) AS due_at, before.time_ms AS begun, greatest(parameterized, answered) AS ready,
       CASE WHEN step = max(step) OVER (PARTITION BY workflow, round, task, attempt) THEN reviews.time_ms END AS reviewed,
       selected - begun AS select_ms, parameterized - selected AS parameterize_ms, answered - asked AS approve_ms,
       claimed - ready AS claim_ms, completed - COALESCE(claimed, ready) AS execute_ms,
       observed - completed AS observe_ms, refined - observed AS refine_ms, reviewed - ended AS review_ms,
       CASE status WHEN 'refused' THEN refusal_code WHEN 'stopped' THEN closing_code ELSE refine_code END AS stopped_by
  FROM step_ends AS each
  LEFT JOIN (SELECT workflow, round, task, attempt, time_ms FROM told WHERE kind = 'task.reviewed') AS reviews
 USING (workflow, round, task, attempt)
  LEFT JOIN (
       SELECT workflow, round, task, attempt, step,
              sum(greatest(0, least(until, answered) - greatest(since, asked))) AS suspended
         FROM step_ends JOIN pauses USING (workflow, round)
        WHERE (ended_by IN ('round.resumed', 'cancellation.requested') OR answered IS NOT NULL)
          AND (until IS NULL OR until > asked) AND (answered IS NULL OR since < answered)
        GROUP BY ALL
  ) AS pausing USING (workflow, round, task, attempt, step)
  ASOF LEFT JOIN (
       SELECT workflow, round, seq, time_ms FROM told
        WHERE kind IN ('tasks.planned', 'refinement.decided', 'observation.recorded', 'task.reviewed')
  ) AS before
    ON before.workflow = each.workflow AND before.round = each.round AND before.seq < each.first_seq;

CREATE TABLE steps AS
SELECT workflow AS workflow_id, round, task, attempt, step, status, action,
       COALESCE(answer, CASE WHEN asked IS NOT NULL THEN 'asked' END) AS approval, success, outcome, error_code,
       decision, classification, stopped_by, refusals, tries, select_ms, parameterize_ms, approve_ms, claim_ms,
       execute_ms, observe_ms, refine_ms, review_ms, took AS action_ms, input_tokens, output_tokens, cost AS cost_usd,
       begun AS began_at, ended AS ended_at
  FROM lived JOIN (
       SELECT lived.workflow, lived.round, lived.task, lived.attempt, lived.step, COALESCE(sum(input_tokens), 0) AS input_tokens,
              COALESCE(sum(output_tokens), 0) AS output_tokens, COALESCE(sum(cost_usd), 0) AS cost
         FROM lived LEFT JOIN (SELECT * FROM calls WHERE verdict = 'accepted') AS paid
           ON paid.workflow = lived.workflow AND paid.round = lived.round AND paid.task = lived.task
          AND paid.attempt = lived.attempt AND paid.step = lived.step
          AND paid.seq >= first_seq AND (ended_seq IS NULL OR paid.seq <= ended_seq)
        GROUP BY ALL
  ) USING (workflow, round, task, attempt, step);

CREATE TABLE action_tries AS
SELECT workflow AS workflow_id, round, task, attempt, step, told.data.try AS try, lived.action,
       told.data.effectClass AS effect_class,
       CASE WHEN heard.time_ms IS NOT NULL THEN heard.data.outcome
            WHEN told.data.try < tries OR status <> 'running' THEN 'unheard_of' ELSE 'running' END AS outcome,
       told.time_ms AS started_at, heard.time_ms AS ended_at, heard.time_ms - told.time_ms AS duration_ms
  FROM told JOIN lived USING (workflow, round, task, attempt, step)
  LEFT JOIN (SELECT * FROM told WHERE kind = 'action.completed') AS heard
    ON heard.workflow = told.workflow AND heard.round = told.round AND heard.task = told.task
   AND heard.attempt = told.attempt AND heard.step = told.step AND heard.data.try = told.data.try
 WHERE told.kind = 'action.started';

CREATE TABLE rounds AS
SELECT workflow AS workflow_id, round, mode, max_steps,
       COALESCE(endings.status, CASE WHEN paused THEN 'paused' ELSE 'running' END) AS status,
       closings.last_code AS stopped_by, COALESCE(selected, 0) AS steps, COALESCE(input_tokens, 0) AS input_tokens,
       COALESCE(output_tokens, 0) AS output_tokens, COALESCE(cost, 0) AS cost_usd, opened_ms AS opened_at,
       ended_ms AS ended_at, ended_ms - opened_ms AS duration_ms, COALESCE(waited, 0) AS waiting_for_people_ms,
       plans.time_ms - opened_ms AS plan_ms, workflow IN (FROM forks) AS fork, login(requester) AS requester,
       login(actor.id) AS actor, actor.kind AS actor_kind, actor.via AS actor_via, actor.verified AS actor_verified
  FROM openings LEFT JOIN endings USING (workflow, round) LEFT JOIN closings USING (workflow, round)
  LEFT JOIN (SELECT workflow, round, TRUE AS paused FROM pauses WHERE end_seq IS NULL) USING (workflow, round)
  LEFT JOIN (SELECT * FROM plans WHERE task = 1) AS plans USING (workflow, round)
  LEFT JOIN (
       SELECT workflow, round, count(*) AS selected FROM told WHERE kind = 'action.selected' GROUP BY ALL
  ) USING (workflow, round)
  LEFT JOIN (
       SELECT workflow, round, sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens,
              sum(cost_usd) AS cost
         FROM (SELECT workflow, round, input_tokens, output_tokens, cost_usd FROM calls WHERE verdict = 'accepted'
                UNION ALL SELECT workflow, round, input_tokens, output_tokens, cost_usd FROM unsettled) GROUP BY ALL
  ) USING (workflow, round)
  LEFT JOIN (
       SELECT workflow, round, sum(COALESCE(answered, ended_ms) - asked) AS waited
         FROM step_times LEFT JOIN endings USING (workflow, round) WHERE asked IS NOT NULL GROUP BY ALL
  ) USING (workflow, round);

-- Three records in a row that answer what happened last, and had no effect, make a workflow stuck.
CREATE TABLE workflows AS
SELECT records.workflow AS workflow_id, COALESCE(latest.status, 'never_opened') AS status, latest.stopped_by,
       COALESCE(latest.status IN ('running', 'paused'), FALSE) AS is_open, COALESCE(is_open AND vain >= 3, FALSE) AS stuck,
       first.forked.workflow AS forked_from, first.forked.seq AS forked_seq, COALESCE(latest.round, 0) AS rounds,
       COALESCE(used.steps, 0) AS steps, COALESCE(used.input_tokens, 0) AS input_tokens,
       COALESCE(used.output_tokens, 0) AS output_tokens, COALESCE(used.cost_usd, 0) AS cost_usd,
       COALESCE(first.opened_ms, heard) AS opened_at, newest AS updated_at
  FROM (
       SELECT workflow, min_by(time_ms, seq) AS heard, max_by(time_ms, seq) AS newest FROM log
        WHERE workflow NOT IN (SELECT workflow FROM log WHERE kind IN ('policy.applied', 'instance.started'))
        GROUP BY ALL
  ) AS records
  LEFT JOIN (SELECT * FROM openings WHERE round = 1) AS first USING (workflow)
  LEFT JOIN (
       SELECT workflow_id AS workflow, round, status, stopped_by FROM rounds
       QUALIFY row_number() OVER (PARTITION BY workflow_id ORDER BY round DESC) = 1
  ) AS latest USING (workflow)
  LEFT JOIN (
       SELECT workflow_id AS workflow, sum(steps) AS steps, sum(input_tokens) AS input_tokens,
              sum(output_tokens) AS output_tokens, sum(cost_usd) AS cost_usd
         FROM rounds GROUP BY ALL
  ) AS used USING (workflow)
  LEFT JOIN (
       SELECT workflow, count(DISTINCT log.sha256) AS vain
         FROM log JOIN (SELECT workflow, max(seq) AS seq, max_by(sha256, seq) AS sha256 FROM told GROUP BY ALL) AS head
        USING (workflow)
        WHERE verdict = 'superseded' AND log.seq > head.seq AND cause.sha256 = head.sha256 AND cause."offset" IS NOT NULL
          AND NOT EXISTS (FROM pauses WHERE pauses.workflow = log.workflow AND log.seq > pauses.seq
                                        AND (end_seq IS NULL OR log.seq < end_seq))
        GROUP BY ALL
  ) USING (workflow);

CREATE TABLE model_calls AS
SELECT workflow AS workflow_id, seq, position, round, task, attempt, step, stage, provider, model, fate, code, calls,
       tries, input_tokens, output_tokens, cached_input_tokens, reasoning_tokens, cost_usd, usage_estimated, duration_ms,
       finish_reason, time_ms AS recorded_at
  FROM calls;

CREATE TABLE documents AS
SELECT workflow AS workflow_id, seq, position, round,
       CASE kind WHEN 'action.completed' THEN 'action' ELSE 'request' END AS origin,
       CASE WHEN regexp_full_match(document.mimeType, '[a-z]+/[a-z0-9.+-]+') THEN document.mimeType ELSE 'other' END
       AS mime_type, document.size AS size, COALESCE(document.byModel, FALSE) AS by_model,
       document.page IS NOT NULL AS from_web, COALESCE(len(document.sources), 0) AS sources, time_ms AS arrived_at
  FROM (
       SELECT *, unnest(data.documents) AS document, generate_subscripts(data.documents, 1) - 1 AS position
         FROM told WHERE kind IN ('workflow.requested', 'round.requested', 'action.completed')
  );

CREATE TABLE approvals AS
SELECT workflow AS workflow_id, round, task, attempt, step, action,
       CASE WHEN answer = 'granted' THEN 'granted' WHEN answered >= due_at AND COALESCE(approver, '') = '' THEN 'expired' WHEN answer = 'denied' THEN 'denied'
            WHEN status = 'running' THEN 'waiting' ELSE 'withdrawn' END AS answer,
       asked AS asked_at, due_at, answered AS answered_at, approve_ms AS waiting_ms,
       login(approver) AS approver, approver_actor.via AS approver_via, approver_actor.verified AS approver_verified
  FROM lived WHERE asked IS NOT NULL;

CREATE TABLE dead_letters AS SELECT topic, partition, log_offset, size, time_ms AS told_at FROM letters;

CREATE TABLE version AS SELECT 2 AS version;

CREATE TABLE requests AS
SELECT workflow AS workflow_id, seq, kind, CASE kind WHEN 'request.refused' THEN 'refused' ELSE 'accepted' END AS answer,
       CASE kind WHEN 'request.refused' THEN COALESCE(data.code, data.reason) END AS code,
       login(data.requester.name) AS requester, login(data.actor.id) AS actor, data.actor.kind AS actor_kind,
       data.actor.via AS actor_via, data.actor.verified AS actor_verified, time_ms AS answered_at
  FROM log WHERE verdict = 'accepted' AND data.request IS NOT NULL;
