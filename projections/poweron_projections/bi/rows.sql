-- The version of these views; it grows when a column is removed or counts something else.
CREATE VIEW {bi}.version AS
SELECT 2 AS version; -- The version number; new views and columns do not change it.

-- One row for each workflow: its status and its usage in all rounds.
CREATE VIEW {bi}.workflows AS
SELECT workflows.workflow_id, -- The workflow's id.
       workflows.status, -- The status: running, paused, completed, failed, cancelled or never_opened.
       workflows.stopped_by, -- Why its last round ended or is ending, as a code; empty if there is none.
       workflows.is_open, -- Whether one of its rounds is open.
       workflows.stuck, -- Whether PowerOn stopped work on it because three events in a row had no effect.
       workflows.forked_from, -- The workflow that it was forked from; empty if it is not a fork.
       workflows.forked_seq, -- The number of the event there at which it was forked; empty if it is not a fork.
       workflows.round AS rounds, -- The number of its rounds.
       COALESCE(used.steps, 0)::bigint AS steps, -- The number of steps begun in all rounds.
       COALESCE(used.input_tokens, 0)::bigint AS input_tokens, -- Tokens that models read, of accepted events.
       COALESCE(used.output_tokens, 0)::bigint AS output_tokens, -- Tokens that models wrote, of accepted events.
       ROUND(COALESCE(used.cost_nano_usd, 0) / 1e9, 9) AS cost_usd, -- The cost of models in US dollars, of accepted events.
       to_timestamp(workflows.opened_ms / 1000.0) AS opened_at, -- When it was opened.
       to_timestamp(workflows.updated_ms / 1000.0) AS updated_at -- When its last record was written.
  FROM workflows
  LEFT JOIN (
       SELECT workflow_id, SUM(steps) AS steps, SUM(input_tokens) AS input_tokens,
              SUM(output_tokens) AS output_tokens, SUM(cost_nano_usd) AS cost_nano_usd
         FROM rounds
        GROUP BY workflow_id
  ) used USING (workflow_id)
 WHERE workflows.status <> 'no_workflow';

-- One row for each round: one message of a user and its outcome.
CREATE VIEW {bi}.rounds AS
SELECT rounds.workflow_id, -- The workflow's id.
       rounds.round, -- The number of the round in its workflow, from 1.
       rounds.mode, -- The mode: React or Actionplan.
       rounds.max_steps, -- The maximum number of steps of each task.
       rounds.status, -- The status: running, paused, completed, failed or cancelled.
       rounds.stopped_by, -- Why it ended or is ending, as a code; empty if there is none.
       rounds.steps, -- The number of steps begun.
       rounds.input_tokens, -- Tokens that models read, of accepted events.
       rounds.output_tokens, -- Tokens that models wrote, of accepted events.
       ROUND(rounds.cost_nano_usd / 1e9, 9) AS cost_usd, -- The cost of models in US dollars, of accepted events.
       to_timestamp(rounds.opened_ms / 1000.0) AS opened_at, -- When it was opened.
       to_timestamp(rounds.ended_ms / 1000.0) AS ended_at, -- When it ended; empty while it runs.
       rounds.ended_ms - rounds.opened_ms AS duration_ms, -- Milliseconds from its opening to its end.
       COALESCE(waited.ms, 0)::bigint AS waiting_for_people_ms, -- Milliseconds of this that it waited for approvals.
       first.started_ms - rounds.opened_ms AS plan_ms, -- Milliseconds until its tasks were planned.
       workflows.forked_from IS NOT NULL AS fork, -- Whether its workflow is a fork.
       CASE WHEN rounds.requester ~ '^[A-Za-z0-9._@+-]{1,64}$' THEN rounds.requester WHEN rounds.requester <> '' THEN 'other' END AS requester, -- The person who asked for it, if the request gives one; other if that is not a login name.
       CASE WHEN rounds.actor->>'id' ~ '^[A-Za-z0-9._@+-]{1,64}$' THEN rounds.actor->>'id' WHEN rounds.actor IS NOT NULL THEN 'other' END AS actor, -- Who asked for it; other if that is not a login name; empty in records of releases before 0.4.
       rounds.actor->>'kind' AS actor_kind, -- The kind of this actor: person, system or service.
       rounds.actor->>'via' AS actor_via, -- The door through which the request came: kafka, cli, mcp or http.
       (rounds.actor->>'verified')::boolean AS actor_verified -- Whether that door authenticated the actor; otherwise these are claims of the sender.
  FROM rounds
  JOIN workflows ON workflows.workflow_id = rounds.workflow_id
  LEFT JOIN tasks first ON first.workflow_id = rounds.workflow_id AND first.round = rounds.round AND first.task = 1
  LEFT JOIN (
       SELECT steps.workflow_id, steps.round,
              SUM(COALESCE(steps.approval_answered_ms, rounds.ended_ms) - steps.approval_ms) AS ms
         FROM steps JOIN rounds USING (workflow_id, round)
        WHERE steps.approval_ms IS NOT NULL
        GROUP BY steps.workflow_id, steps.round
  ) waited ON waited.workflow_id = rounds.workflow_id AND waited.round = rounds.round;

-- One row for each task of a round's plan.
CREATE VIEW {bi}.tasks AS
SELECT tasks.workflow_id, -- The workflow's id.
       tasks.round, -- The number of the round, from 1.
       tasks.task, -- The number of the task in its round, from 1.
       tasks.task_type, -- The type of the task: lookup, analysis, report or transform.
       tasks.status, -- The status: planned, running, success, failed or stopped.
       tasks.stopped_by, -- Why it ended, as a code; empty if there is none.
       tasks.attempts, -- The number of attempts.
       tasks.retries, -- The number of retries.
       tasks.actions, -- The number of its actions in all attempts.
       tasks.tokens, -- Tokens that models read and wrote for it, of accepted events.
       ROUND(COALESCE(used.cost_nano_usd, 0) / 1e9, 9) AS cost_usd, -- The cost of its model calls in US dollars, of accepted events.
       to_timestamp(tasks.started_ms / 1000.0) AS started_at, -- When it began; empty while it is planned.
       to_timestamp(tasks.ended_ms / 1000.0) AS ended_at, -- When it ended; empty before that.
       tasks.ended_ms - tasks.started_ms AS duration_ms -- Milliseconds from its beginning to its end.
  FROM tasks
  LEFT JOIN (
       SELECT workflow_id, round, task, SUM(cost_nano_usd) AS cost_nano_usd
         FROM usage
        WHERE verdict = 'accepted'
        GROUP BY workflow_id, round, task
  ) used USING (workflow_id, round, task);

-- One row for each step: one iteration of the loop with one action.
CREATE VIEW {bi}.steps AS
SELECT workflow_id, -- The workflow's id.
       round, -- The number of the round, from 1.
       task, -- The number of the task in its round, from 1.
       attempt, -- The number of the attempt at the task, from 1.
       step, -- The number of the step in its attempt, from 1.
       status, -- The status: running, done, refused or stopped.
       action, -- The selected action; empty if there is none.
       approval, -- The approval: asked, granted or denied; empty if none is needed.
       success, -- Whether the action succeeded.
       outcome, -- The outcome of the action: done, failed, denied, not_begun, crashed, unknown or cancelled.
       error_code, -- Why the action failed, as a code.
       decision, -- The decision after it: continue or stop.
       classification, -- The classification of the step: success, retry or failed.
       stopped_by, -- Why the loop stopped here, as a code; empty if it continued.
       jsonb_array_length(refusals) AS refusals, -- The number of rejected model answers.
       tries, -- The number of tries of its action.
       selected_ms - begun_ms AS select_ms, -- Milliseconds until the action was selected.
       parameterized_ms - selected_ms AS parameterize_ms, -- Milliseconds until its parameters were set.
       approval_answered_ms - approval_ms AS approve_ms, -- Milliseconds that it waited for a person's answer.
       claimed_ms - GREATEST(parameterized_ms, approval_answered_ms) AS claim_ms, -- Milliseconds until a worker started the action.
       completed_ms - COALESCE(claimed_ms, GREATEST(parameterized_ms, approval_answered_ms)) AS execute_ms, -- Milliseconds from the start of the first try to the end of the action.
       observed_ms - completed_ms AS observe_ms, -- Milliseconds until the result was observed.
       refined_ms - observed_ms AS refine_ms, -- Milliseconds until the refiner decided.
       reviewed_ms - ended_ms AS review_ms, -- Milliseconds until its attempt was reviewed; empty unless it is the last step of the attempt.
       duration_ms AS action_ms, -- Milliseconds that the action took, measured by its worker.
       input_tokens, -- Tokens that models read for it, of accepted events.
       output_tokens, -- Tokens that models wrote for it, of accepted events.
       ROUND(cost_nano_usd / 1e9, 9) AS cost_usd, -- The cost of its model calls in US dollars, of accepted events.
       to_timestamp(begun_ms / 1000.0) AS began_at, -- When it could begin, because the work before it was done.
       to_timestamp(ended_ms / 1000.0) AS ended_at -- When it ended; empty while it runs.
  FROM steps;

-- One row for each answered model call that an event reports, and one for all failed calls of an event with the same reason. An interrupted call has no row, but the totals of rounds and workflows count it at its maximum usage.
CREATE VIEW {bi}.model_calls AS
SELECT usage.workflow_id, -- The workflow's id.
       usage.seq, -- The record of the workflow that reports the call, from 0.
       usage.position, -- The place of the call in that record, from 0.
       usage.round, -- The number of the round.
       usage.task, -- The number of the task; 0 if the call is not for a single task.
       usage.attempt, -- The number of the attempt; 0 if there is none.
       usage.step, -- The number of the step; 0 if there is none.
       usage.stage, -- The stage: plan, plan_actions, select, parameterize, execute, observe, refine, review or message.
       usage.provider, -- The provider; empty for failed calls.
       usage.model, -- The model; empty for failed calls.
       CASE
           WHEN usage.verdict <> 'accepted' THEN 'superseded'
           WHEN usage.code IS NOT NULL THEN 'failed'
           WHEN usage.refused THEN 'refused'
           WHEN usage.attempt < tasks.attempts THEN 'retried'
           ELSE 'used'
       END AS fate, -- What happened to it: used, superseded by another worker's, failed, refused as an answer, or retried in a later attempt.
       usage.code, -- Why the calls failed, as a code; empty for an answered call.
       CASE WHEN usage.code IS NULL THEN 1 ELSE usage.tries END AS calls, -- The number of calls in the row: 1 for an answered call.
       usage.tries, -- The number of requests to the model.
       usage.input_tokens, -- Tokens that the model read.
       usage.output_tokens, -- Tokens that the model wrote.
       usage.cached_input_tokens, -- Input tokens that the provider read from its cache.
       usage.reasoning_tokens, -- Output tokens that the model used for reasoning.
       ROUND(usage.cost_nano_usd / 1e9, 9) AS cost_usd, -- The cost in US dollars.
       usage.usage_estimated, -- Whether tokens and cost are an estimate, never too low, because the provider reported no plausible ones.
       usage.duration_ms, -- Milliseconds that the answer took.
       usage.finish_reason, -- Why the model stopped writing, as a code; empty if its provider does not say.
       to_timestamp(usage.time_ms / 1000.0) AS recorded_at -- When the record that reports it was written.
  FROM usage
  LEFT JOIN tasks USING (workflow_id, round, task);

-- One row for each try of an action: one claim of a worker to run it.
CREATE VIEW {bi}.action_tries AS
SELECT workflow_id, -- The workflow's id.
       round, -- The number of the round, from 1.
       task, -- The number of the task in its round, from 1.
       attempt, -- The number of the attempt at the task, from 1.
       step, -- The number of the step in its attempt, from 1.
       (claim ->> 'try')::integer AS try, -- The number of the try in its step, from 1.
       action, -- The action.
       claim ->> 'effectClass' AS effect_class, -- The effect class, which says whether a repetition is harmless: pure, idempotent or at_most_once.
       CASE
           WHEN claim ? 'endedMs' THEN claim ->> 'outcome'
           WHEN (claim ->> 'try')::integer < tries OR status <> 'running' THEN 'unheard_of'
           ELSE 'running'
       END AS outcome, -- The outcome: done, failed, denied, not_begun, crashed, unknown, cancelled, running, or unheard_of if its worker never reported.
       to_timestamp((claim ->> 'startedMs')::bigint / 1000.0) AS started_at, -- When it began.
       to_timestamp((claim ->> 'endedMs')::bigint / 1000.0) AS ended_at, -- When its end was reported; empty if it was not.
       (claim ->> 'endedMs')::bigint - (claim ->> 'startedMs')::bigint AS duration_ms -- Milliseconds between the two.
  FROM steps
 CROSS JOIN LATERAL jsonb_array_elements(claims) AS claim;

-- One row for each document of a request or an action.
CREATE VIEW {bi}.documents AS
SELECT workflow_id, -- The workflow's id.
       seq, -- The record of the workflow that contains it, from 0.
       position, -- Its place in that record, from 0.
       round, -- The number of the round, from 1.
       CASE WHEN label ~ '^round[0-9]+_request$' THEN 'request' ELSE 'action' END AS origin, -- The origin: request or action.
       CASE WHEN mime_type ~ '^[a-z]+/[a-z0-9.+-]+$' THEN mime_type ELSE 'other' END AS mime_type, -- Its media type; other if the given one is invalid.
       size, -- Its size in bytes.
       by_model, -- Whether a model may have written it.
       page IS NOT NULL AS from_web, -- Whether it is the text of a web page.
       jsonb_array_length(sources) AS sources, -- The number of web pages that it cites.
       to_timestamp(time_ms / 1000.0) AS arrived_at -- When it arrived.
  FROM documents;

-- One row for each requested approval.
CREATE VIEW {bi}.approvals AS
SELECT workflow_id, -- The workflow's id.
       round, -- The number of the round, from 1.
       task, -- The number of the task in its round, from 1.
       attempt, -- The number of the attempt at the task, from 1.
       step, -- The number of the step in its attempt, from 1.
       action, -- The action that needs it.
       CASE
           WHEN approval = 'denied' AND approval_by IS NULL AND approval_answered_ms >= approval_due_ms THEN 'expired'
           WHEN approval = 'asked' AND status = 'running' THEN 'waiting'
           WHEN approval = 'asked' THEN 'withdrawn'
           ELSE approval
       END AS answer, -- The answer: granted, denied, expired, waiting, or withdrawn if the round ended first.
       to_timestamp(approval_ms / 1000.0) AS asked_at, -- When it was requested.
       to_timestamp(approval_due_ms / 1000.0) AS due_at, -- The time limit of the answer.
       to_timestamp(approval_answered_ms / 1000.0) AS answered_at, -- When it was answered; empty if it was not.
       approval_answered_ms - approval_ms AS waiting_ms, -- Milliseconds until the answer.
       CASE WHEN approval_by ~ '^[A-Za-z0-9._@+-]{1,64}$' THEN approval_by WHEN approval_by <> '' THEN 'other' END AS approver, -- The person who answered, if the answer gives one; other if that is not a login name.
       approval_actor->>'via' AS approver_via, -- The door through which the answer came: kafka, cli, mcp or http.
       (approval_actor->>'verified')::boolean AS approver_verified -- Whether that door authenticated the approver; otherwise it is a claim of the sender.
  FROM steps
 WHERE approval_ms IS NOT NULL;

-- One row for each answer to a request.
CREATE VIEW {bi}.requests AS
SELECT workflow_id, -- The workflow's id.
       seq, -- The record of the workflow with the answer, from 0.
       regexp_replace(type, '^poweron[.](.+)[.]v[0-9]+$', '\1') AS kind, -- The event of the answer, such as workflow.requested, cancellation.requested or request.refused.
       answer, -- The answer: accepted or refused.
       CASE WHEN answer = 'refused' THEN COALESCE(code, reason) END AS code, -- Why it was refused, as a code; empty if it was accepted.
       CASE WHEN requester ~ '^[A-Za-z0-9._@+-]{1,64}$' THEN requester WHEN requester <> '' THEN 'other' END AS requester, -- The person who asked, if the request gives one; other if that is not a login name.
       CASE WHEN actor->>'id' ~ '^[A-Za-z0-9._@+-]{1,64}$' THEN actor->>'id' WHEN actor IS NOT NULL THEN 'other' END AS actor, -- Who asked for it; other if that is not a login name; empty if the request was refused, and in records of releases before 0.4.
       actor->>'kind' AS actor_kind, -- The kind of this actor: person, system or service.
       actor->>'via' AS actor_via, -- The door through which the request came: kafka, cli, mcp or http.
       (actor->>'verified')::boolean AS actor_verified, -- Whether that door authenticated the actor; otherwise these are claims of the sender.
       to_timestamp(time_ms / 1000.0) AS answered_at -- When it was answered.
  FROM requests;

-- One row for each unreadable record.
CREATE VIEW {bi}.dead_letters AS
SELECT CASE WHEN topic ~ '^[A-Za-z0-9._-]{1,249}$' THEN topic ELSE 'other' END AS topic, -- The topic of the record.
       partition, -- Its partition.
       log_offset, -- Its offset.
       size, -- Its size in bytes.
       to_timestamp(time_ms / 1000.0) AS told_at -- When it was reported.
  FROM dead_letters;
