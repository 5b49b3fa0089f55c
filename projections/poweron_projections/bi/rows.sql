-- The version of these views; it grows whenever one of them loses a column or counts something else.
CREATE VIEW {bi}.version AS
SELECT 2 AS version; -- The number; new views and columns do not change it.

-- One row for each workflow: how it stands and what it used in all its rounds.
CREATE VIEW {bi}.workflows AS
SELECT workflows.workflow_id, -- The workflow's id.
       workflows.status, -- How it stands: running, completed, failed, cancelled or never_opened.
       workflows.stopped_by, -- The code of why its last round ended or is ending; empty where there is none.
       workflows.is_open, -- Whether a round of it is open.
       workflows.stuck, -- Whether nobody works on it any more, since three events in a row had no effect.
       workflows.forked_from, -- The workflow that it was forked from; empty where it is no fork.
       workflows.forked_seq, -- The number of the event there that it was forked at; empty where it is no fork.
       workflows.round AS rounds, -- How many rounds it has had.
       COALESCE(used.steps, 0)::bigint AS steps, -- How many steps were begun in all rounds.
       COALESCE(used.input_tokens, 0)::bigint AS input_tokens, -- Tokens that models read, of accepted events.
       COALESCE(used.output_tokens, 0)::bigint AS output_tokens, -- Tokens that models wrote, of accepted events.
       ROUND(COALESCE(used.cost_nano_usd, 0) / 1e9, 9) AS cost_usd, -- What models cost in US dollars, of accepted events.
       to_timestamp(workflows.opened_ms / 1000.0) AS opened_at, -- When it was opened.
       to_timestamp(workflows.updated_ms / 1000.0) AS updated_at -- When its last record was written.
  FROM workflows
  LEFT JOIN (
       SELECT workflow_id, SUM(steps) AS steps, SUM(input_tokens) AS input_tokens,
              SUM(output_tokens) AS output_tokens, SUM(cost_nano_usd) AS cost_nano_usd
         FROM rounds
        GROUP BY workflow_id
  ) used USING (workflow_id);

-- One row for each round, which is one message of a user and what came of it.
CREATE VIEW {bi}.rounds AS
SELECT rounds.workflow_id, -- The workflow's id.
       rounds.round, -- The number of the round in its workflow, from 1.
       rounds.mode, -- How it was worked on: React or Actionplan.
       rounds.max_steps, -- How many steps each task might take.
       rounds.status, -- How it stands: running, completed, failed or cancelled.
       rounds.stopped_by, -- The code of why it ended or is ending; empty where there is none.
       rounds.steps, -- How many steps were begun.
       rounds.input_tokens, -- Tokens that models read, of accepted events.
       rounds.output_tokens, -- Tokens that models wrote, of accepted events.
       ROUND(rounds.cost_nano_usd / 1e9, 9) AS cost_usd, -- What models cost in US dollars, of accepted events.
       to_timestamp(rounds.opened_ms / 1000.0) AS opened_at, -- When it was opened.
       to_timestamp(rounds.ended_ms / 1000.0) AS ended_at, -- When it ended; empty while it runs.
       rounds.ended_ms - rounds.opened_ms AS duration_ms, -- Milliseconds from its opening to its end.
       COALESCE(waited.ms, 0)::bigint AS waiting_for_people_ms, -- Milliseconds of it in which an approval was waited for.
       first.started_ms - rounds.opened_ms AS plan_ms, -- Milliseconds until its tasks were planned.
       workflows.forked_from IS NOT NULL AS fork, -- Whether its workflow is a fork of another one.
       CASE WHEN rounds.requester ~ '^[A-Za-z0-9._@+-]{1,64}$' THEN rounds.requester WHEN rounds.requester <> '' THEN 'other' END AS requester -- Who asked for it, if the request says so; other where that is no login name.
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
       tasks.task_type, -- What kind of task it is: lookup, analysis, report or transform.
       tasks.status, -- How it stands: planned, running, success, failed or stopped.
       tasks.stopped_by, -- The code of why it ended; empty where there is none.
       tasks.attempts, -- How often it was begun.
       tasks.retries, -- How often it was begun again.
       tasks.actions, -- How many actions it has had in all attempts.
       tasks.tokens, -- Tokens that models read and wrote for it, of accepted events.
       ROUND(COALESCE(used.cost_nano_usd, 0) / 1e9, 9) AS cost_usd, -- What models cost for it in US dollars, of accepted events.
       to_timestamp(tasks.started_ms / 1000.0) AS started_at, -- When it was begun; empty while it is planned.
       to_timestamp(tasks.ended_ms / 1000.0) AS ended_at, -- When it ended; empty before that.
       tasks.ended_ms - tasks.started_ms AS duration_ms -- Milliseconds from its begin to its end.
  FROM tasks
  LEFT JOIN (
       SELECT workflow_id, round, task, SUM(cost_nano_usd) AS cost_nano_usd
         FROM usage
        WHERE verdict = 'accepted'
        GROUP BY workflow_id, round, task
  ) used USING (workflow_id, round, task);

-- One row for each step, which is one turn of the loop with one action.
CREATE VIEW {bi}.steps AS
SELECT workflow_id, -- The workflow's id.
       round, -- The number of the round, from 1.
       task, -- The number of the task in its round, from 1.
       attempt, -- The number of the attempt at the task, from 1.
       step, -- The number of the step in its attempt, from 1.
       status, -- How it stands: running, done, refused or stopped.
       action, -- The action that was selected; empty where none was.
       approval, -- Where a person is asked: asked, granted or denied; else empty.
       success, -- Whether the action did what it was selected for.
       outcome, -- What came of the action: done, failed, denied, not_begun, crashed, unknown or cancelled.
       error_code, -- The code of why the action has no success.
       decision, -- What was decided after it: continue or stop.
       classification, -- What it was judged as: success, retry or failed.
       stopped_by, -- The code of why the loop stopped here; empty where it went on.
       jsonb_array_length(refusals) AS refusals, -- How many answers of models for it were refused.
       tries, -- How often its action was begun.
       selected_ms - begun_ms AS select_ms, -- Milliseconds until the action was selected.
       parameterized_ms - selected_ms AS parameterize_ms, -- Milliseconds until its parameters were set.
       approval_answered_ms - approval_ms AS approve_ms, -- Milliseconds in which a person's answer was waited for.
       claimed_ms - GREATEST(parameterized_ms, approval_answered_ms) AS claim_ms, -- Milliseconds until a worker began with the action.
       completed_ms - COALESCE(claimed_ms, GREATEST(parameterized_ms, approval_answered_ms)) AS execute_ms, -- Milliseconds from the first try's begin to the action's end.
       observed_ms - completed_ms AS observe_ms, -- Milliseconds until the result was looked at.
       refined_ms - observed_ms AS refine_ms, -- Milliseconds until it was decided how to go on.
       reviewed_ms - ended_ms AS review_ms, -- Milliseconds until its attempt was judged; empty unless it is the last step of one.
       duration_ms AS action_ms, -- Milliseconds that the action took, as its worker measured.
       input_tokens, -- Tokens that models read for it, of accepted events.
       output_tokens, -- Tokens that models wrote for it, of accepted events.
       ROUND(cost_nano_usd / 1e9, 9) AS cost_usd, -- What models cost for it in US dollars, of accepted events.
       to_timestamp(begun_ms / 1000.0) AS began_at, -- When it could begin, since what comes before it was done.
       to_timestamp(ended_ms / 1000.0) AS ended_at -- When it ended; empty while it runs.
  FROM steps;

-- One row for each call of a model that an event reports: one that was answered, or those that failed for one reason on the way to it. A call that was interrupted is in no row, while the totals of rounds and workflows count it at the most that it may have used.
CREATE VIEW {bi}.model_calls AS
SELECT usage.workflow_id, -- The workflow's id.
       usage.seq, -- The record of the workflow that tells of the call, from 0.
       usage.position, -- The place of the call in that record, from 0.
       usage.round, -- The number of the round.
       usage.task, -- The number of the task; 0 where it is for no single task.
       usage.attempt, -- The number of the attempt; 0 where it is for none.
       usage.step, -- The number of the step; 0 where it is for none.
       usage.stage, -- What it was for: plan, plan_actions, select, parameterize, execute, observe, refine, review or message.
       usage.provider, -- Who runs the model; empty for calls that failed.
       usage.model, -- The model; empty for calls that failed.
       CASE
           WHEN usage.verdict <> 'accepted' THEN 'superseded'
           WHEN usage.code IS NOT NULL THEN 'failed'
           WHEN usage.refused THEN 'refused'
           WHEN usage.attempt < tasks.attempts THEN 'retried'
           ELSE 'used'
       END AS fate, -- What became of it: used, superseded by another worker's, failed, refused as an answer, or retried in a later attempt.
       usage.code, -- The code of why the calls failed; empty for one that was answered.
       CASE WHEN usage.code IS NULL THEN 1 ELSE usage.tries END AS calls, -- How many calls the row stands for: 1 if it was answered.
       usage.tries, -- How often a model was asked.
       usage.input_tokens, -- Tokens that the model read.
       usage.output_tokens, -- Tokens that the model wrote.
       usage.cached_input_tokens, -- Those of the tokens read that its provider had kept.
       usage.reasoning_tokens, -- Those of the tokens written that were thought only.
       ROUND(usage.cost_nano_usd / 1e9, 9) AS cost_usd, -- What it cost in US dollars.
       usage.usage_estimated, -- Whether tokens and cost are an estimate, never too low, since the provider reported none that are plausible.
       usage.duration_ms, -- Milliseconds that the answer took.
       usage.finish_reason, -- The code of why the model wrote no more; empty where its provider does not say.
       to_timestamp(usage.time_ms / 1000.0) AS recorded_at -- When the record that tells of it was written.
  FROM usage
  LEFT JOIN tasks USING (workflow_id, round, task);

-- One row for each try of an action, which is one claim of a worker to run it.
CREATE VIEW {bi}.action_tries AS
SELECT workflow_id, -- The workflow's id.
       round, -- The number of the round, from 1.
       task, -- The number of the task in its round, from 1.
       attempt, -- The number of the attempt at the task, from 1.
       step, -- The number of the step in its attempt, from 1.
       (claim ->> 'try')::integer AS try, -- The number of the try in its step, from 1.
       action, -- The action.
       claim ->> 'effectClass' AS effect_class, -- What repeating it would mean: pure, idempotent or at_most_once.
       CASE
           WHEN claim ? 'endedMs' THEN outcome
           WHEN (claim ->> 'try')::integer < tries OR status <> 'running' THEN 'unheard_of'
           ELSE 'running'
       END AS outcome, -- What came of it: done, failed, denied, not_begun, crashed, unknown, cancelled, running, or unheard_of where its worker never told.
       to_timestamp((claim ->> 'startedMs')::bigint / 1000.0) AS started_at, -- When it was begun.
       to_timestamp((claim ->> 'endedMs')::bigint / 1000.0) AS ended_at, -- When its end was told; empty where it was not.
       (claim ->> 'endedMs')::bigint - (claim ->> 'startedMs')::bigint AS duration_ms -- Milliseconds between the two.
  FROM steps
 CROSS JOIN LATERAL jsonb_array_elements(claims) AS claim;

-- One row for each document that a request brought or an action made.
CREATE VIEW {bi}.documents AS
SELECT workflow_id, -- The workflow's id.
       seq, -- The record of the workflow that brought it, from 0.
       position, -- Its place in that record, from 0.
       round, -- The number of the round, from 1.
       CASE WHEN label ~ '^round[0-9]+_request$' THEN 'request' ELSE 'action' END AS origin, -- Who brought it: request or action.
       CASE WHEN mime_type ~ '^[a-z]+/[a-z0-9.+-]+$' THEN mime_type ELSE 'other' END AS mime_type, -- Its media type; other where what stands there is none.
       size, -- Its size in bytes.
       by_model, -- Whether a model may have written it.
       page IS NOT NULL AS from_web, -- Whether it is the text of a page of the web.
       jsonb_array_length(sources) AS sources, -- How many pages of the web it cites.
       to_timestamp(time_ms / 1000.0) AS arrived_at -- When it came.
  FROM documents;

-- One row for each approval that a person was asked for.
CREATE VIEW {bi}.approvals AS
SELECT workflow_id, -- The workflow's id.
       round, -- The number of the round, from 1.
       task, -- The number of the task in its round, from 1.
       attempt, -- The number of the attempt at the task, from 1.
       step, -- The number of the step in its attempt, from 1.
       action, -- The action that it is for.
       CASE
           WHEN approval = 'denied' AND approval_answered_ms >= approval_due_ms THEN 'expired'
           WHEN approval = 'asked' AND status = 'running' THEN 'waiting'
           WHEN approval = 'asked' THEN 'withdrawn'
           ELSE approval
       END AS answer, -- What came of it: granted, denied, expired, waiting, or withdrawn where the round ended before.
       to_timestamp(approval_ms / 1000.0) AS asked_at, -- When it was asked for.
       to_timestamp(approval_due_ms / 1000.0) AS due_at, -- Until when an answer was waited for.
       to_timestamp(approval_answered_ms / 1000.0) AS answered_at, -- When it was answered; empty where it was not.
       approval_answered_ms - approval_ms AS waiting_ms, -- Milliseconds until the answer.
       CASE WHEN approval_by ~ '^[A-Za-z0-9._@+-]{1,64}$' THEN approval_by WHEN approval_by <> '' THEN 'other' END AS approver -- Who answered, if the answer says so; other where that is no login name.
  FROM steps
 WHERE approval_ms IS NOT NULL;

-- One row for each answer to a request.
CREATE VIEW {bi}.requests AS
SELECT workflow_id, -- The workflow's id.
       seq, -- The record of the workflow that answers, from 0.
       regexp_replace(type, '^poweron[.](.+)[.]v[0-9]+$', '\1') AS kind, -- The event that answers, such as workflow.requested, cancellation.requested or request.refused.
       answer, -- The answer: accepted or refused.
       CASE WHEN answer = 'refused' THEN COALESCE(code, reason) END AS code, -- The code of why it was refused; empty if it was accepted.
       CASE WHEN requester ~ '^[A-Za-z0-9._@+-]{1,64}$' THEN requester WHEN requester <> '' THEN 'other' END AS requester, -- Who asked, if the request says so; other where that is no login name.
       to_timestamp(time_ms / 1000.0) AS answered_at -- When it was answered.
  FROM requests;

-- One row for each record that nobody can read.
CREATE VIEW {bi}.dead_letters AS
SELECT CASE WHEN topic ~ '^[A-Za-z0-9._-]{1,249}$' THEN topic ELSE 'other' END AS topic, -- The topic that it is on.
       partition, -- The partition that it is on.
       log_offset, -- Its offset there.
       size, -- Its size in bytes.
       to_timestamp(time_ms / 1000.0) AS told_at -- When it was told of.
  FROM dead_letters;
