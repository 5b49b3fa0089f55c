-- Requests and how they ended, by {period} and mode: the opening counts where it was, the end where that was.
CREATE VIEW {bi}.outcomes_by_{period} AS
SELECT to_timestamp(period * {seconds}) AS {period}, -- The begin of the {period} in UTC.
       fork, -- Whether they belong to forks of workflows.
       mode, -- How they were worked on: React or Actionplan.
       COUNT(*) FILTER (WHERE opening) AS opened, -- How many rounds were opened.
       COUNT(*) FILTER (WHERE NOT opening) AS ended, -- How many rounds ended.
       COUNT(*) FILTER (WHERE NOT opening AND status = 'completed') AS completed, -- Those that did what was asked.
       COUNT(*) FILTER (WHERE NOT opening AND status = 'failed' AND NOT fork_stopped) AS failed, -- Those that did not.
       COUNT(*) FILTER (WHERE NOT opening AND status = 'cancelled') AS cancelled, -- Those that somebody stopped.
       COUNT(*) FILTER (WHERE NOT opening AND fork_stopped) AS forks_stopped, -- Those of forks that ended where nothing recorded was left and nothing may run.
       COUNT(*) FILTER (WHERE NOT opening AND status = 'completed')::float8 / NULLIF(COUNT(*) FILTER (WHERE NOT opening AND NOT fork_stopped), 0) AS success_share, -- Completed of ended, from 0 to 1, those of forks that stopped left out.
       COALESCE(SUM(steps), 0)::bigint AS steps, -- Steps of those that ended.
       (percentile_cont(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY ms))[1] AS p50_ms, -- The median in milliseconds of those that ended, waiting for people left out.
       (percentile_cont(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY ms))[2] AS p95_ms, -- The 95th percentile of the same.
       (percentile_cont(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY ms))[3] AS p99_ms, -- The 99th percentile of the same.
       COALESCE(SUM(waited_ms), 0)::bigint AS waiting_for_people_ms -- Milliseconds in which those that ended waited for an approval.
  FROM (
       SELECT opened_ms / {ms} AS period, {fork} AS fork, mode, status, FALSE AS fork_stopped, TRUE AS opening,
              NULL::bigint AS steps, NULL::bigint AS ms, NULL::bigint AS waited_ms
         FROM rounds
       UNION ALL
       SELECT rounds.ended_ms / {ms}, {fork}, rounds.mode, rounds.status, COALESCE(rounds.stopped_by IN {fork_stops}, FALSE), FALSE,
              rounds.steps, rounds.ended_ms - rounds.opened_ms - COALESCE(waited.ms, 0), COALESCE(waited.ms, 0)
         FROM rounds
         LEFT JOIN (
              SELECT steps.workflow_id, steps.round,
                     SUM(COALESCE(steps.approval_answered_ms, rounds.ended_ms) - steps.approval_ms)::bigint AS ms
                FROM steps JOIN rounds USING (workflow_id, round)
               WHERE steps.approval_ms IS NOT NULL
               GROUP BY steps.workflow_id, steps.round
         ) waited USING (workflow_id, round)
        WHERE rounds.ended_ms IS NOT NULL
  ) told
 GROUP BY period, fork, mode;

-- Why things stopped, by {period}, as codes.
CREATE VIEW {bi}.stops_by_{period} AS
SELECT to_timestamp(period * {seconds}) AS {period}, -- The begin of the {period} in UTC.
       fork, -- Whether they belong to forks of workflows.
       level, -- What stopped: round, task, step, action or model_call.
       code, -- Why, as the catalogue of codes names it.
       SUM(times)::bigint AS times -- How often.
  FROM (
       SELECT ended_ms / {ms} AS period, {fork} AS fork, 'round' AS level, stopped_by AS code, 1::bigint AS times
         FROM rounds WHERE stopped_by IS NOT NULL AND ended_ms IS NOT NULL
       UNION ALL
       SELECT ended_ms / {ms}, {fork}, 'task', stopped_by, 1 FROM tasks WHERE stopped_by IS NOT NULL AND ended_ms IS NOT NULL
       UNION ALL
       SELECT ended_ms / {ms}, {fork}, 'step', stopped_by, 1 FROM steps WHERE stopped_by IS NOT NULL
       UNION ALL
       SELECT completed_ms / {ms}, {fork}, 'action', error_code, 1 FROM steps WHERE error_code IS NOT NULL
       UNION ALL
       SELECT time_ms / {ms}, {fork}, 'model_call', code, tries FROM usage WHERE code IS NOT NULL
  ) told
 GROUP BY period, fork, level, code;

-- How long the stages took, by {period}; what people took is a stage of its own.
CREATE VIEW {bi}.stage_times_by_{period} AS
SELECT to_timestamp(period * {seconds}) AS {period}, -- The begin of the {period} in UTC in which they ended.
       fork, -- Whether they belong to forks of workflows.
       (ARRAY['plan', 'plan_actions', 'select', 'parameterize', 'approve', 'claim', 'execute', 'observe', 'refine', 'review'])[stage] AS stage, -- Which: plan, plan_actions, select, parameterize, approve, claim, execute, observe, refine or review.
       stage = 5 AS by_people, -- Whether it is people who took the time.
       COUNT(*) AS times, -- How many such stages ended.
       (percentile_cont(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY ms))[1] AS p50_ms, -- The median in milliseconds.
       (percentile_cont(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY ms))[2] AS p95_ms, -- The 95th percentile of the same.
       (percentile_cont(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY ms))[3] AS p99_ms, -- The 99th percentile of the same.
       SUM(ms)::bigint AS total_ms -- Milliseconds of all together.
  FROM (
       SELECT ended / {ms} AS period, {fork} AS fork, stage, ms
         FROM (
              SELECT workflow_id,
                     unnest(ARRAY[
                         CASE WHEN rounds.mode = 'Actionplan' AND steps.step = 1 THEN 2 ELSE 3 END,
                         4, 5, 6, 7, 8, 9, 10
                     ]) AS stage,
                     unnest(ARRAY[
                         steps.selected_ms - steps.begun_ms,
                         steps.parameterized_ms - steps.selected_ms,
                         steps.approval_answered_ms - steps.approval_ms,
                         steps.claimed_ms - GREATEST(steps.parameterized_ms, steps.approval_answered_ms),
                         steps.completed_ms - COALESCE(
                             steps.claimed_ms, GREATEST(steps.parameterized_ms, steps.approval_answered_ms)
                         ),
                         steps.observed_ms - steps.completed_ms,
                         steps.refined_ms - steps.observed_ms,
                         steps.reviewed_ms - steps.ended_ms
                     ]) AS ms,
                     unnest(ARRAY[
                         steps.selected_ms, steps.parameterized_ms, steps.approval_answered_ms, steps.claimed_ms,
                         steps.completed_ms, steps.observed_ms, steps.refined_ms, steps.reviewed_ms
                     ]) AS ended
                FROM steps
                JOIN rounds USING (workflow_id, round)
         ) stages
        WHERE ms IS NOT NULL
       UNION ALL
       SELECT tasks.started_ms / {ms}, {fork}, 1, tasks.started_ms - rounds.opened_ms
         FROM tasks JOIN rounds USING (workflow_id, round)
        WHERE tasks.task = 1 AND tasks.started_ms IS NOT NULL
  ) told
 GROUP BY period, fork, stage;

-- What models were asked and what they cost, by {period}, model and stage, whatever became of the answers.
CREATE VIEW {bi}.model_usage_by_{period} AS
SELECT to_timestamp((time_ms / {ms}) * {seconds}) AS {period}, -- The begin of the {period} in UTC.
       {fork} AS fork, -- Whether they belong to forks of workflows.
       provider, -- Who runs the model; empty for calls that failed.
       model, -- The model; empty for calls that failed.
       stage, -- What it was asked for.
       COUNT(*) FILTER (WHERE code IS NULL) AS calls, -- How many calls were answered.
       COALESCE(SUM(tries) FILTER (WHERE code IS NOT NULL), 0)::bigint AS failed_calls, -- How many calls failed.
       SUM(input_tokens)::bigint AS input_tokens, -- Tokens that models read.
       SUM(output_tokens)::bigint AS output_tokens, -- Tokens that models wrote.
       SUM(cached_input_tokens)::bigint AS cached_input_tokens, -- Those of the tokens read that a provider had kept.
       SUM(reasoning_tokens)::bigint AS reasoning_tokens, -- Those of the tokens written that were thought only.
       ROUND(SUM(cost_nano_usd) / 1e9, 9) AS cost_usd, -- What it cost in US dollars.
       SUM(duration_ms)::bigint AS duration_ms -- Milliseconds that the calls took together.
  FROM usage
 GROUP BY time_ms / {ms}, 2, provider, model, stage;

-- What a completed task costs, by {period}: everything that models cost then, shared by the tasks completed then.
CREATE VIEW {bi}.task_costs_by_{period} AS
SELECT to_timestamp(period * {seconds}) AS {period}, -- The begin of the {period} in UTC.
       fork, -- Whether they belong to forks of workflows.
       SUM(ended)::bigint AS tasks, -- How many tasks ended.
       SUM(completed)::bigint AS completed, -- Those that succeeded.
       ROUND(SUM(cost_nano_usd) / 1e9, 9) AS cost_usd, -- What models cost in US dollars, whatever it was for.
       ROUND(SUM(cost_nano_usd) / 1e9 / NULLIF(SUM(completed), 0), 9) AS cost_per_completed_usd, -- The same for each task that succeeded.
       SUM(tokens)::bigint AS tokens -- Tokens that models read and wrote.
  FROM (
       SELECT time_ms / {ms} AS period, {fork} AS fork, 0 AS ended, 0 AS completed, SUM(cost_nano_usd) AS cost_nano_usd,
              SUM(input_tokens + output_tokens) AS tokens
         FROM usage
        GROUP BY 1, 2
       UNION ALL
       SELECT ended_ms / {ms}, {fork}, COUNT(*), COUNT(*) FILTER (WHERE status = 'success'), 0, 0
         FROM tasks
        WHERE ended_ms IS NOT NULL
        GROUP BY 1, 2
  ) told
 GROUP BY period, fork;

-- What was paid for and what became of it, by {period}: used, superseded, failed, refused or retried.
CREATE VIEW {bi}.spending_by_{period} AS
SELECT to_timestamp(period * {seconds}) AS {period}, -- The begin of the {period} in UTC.
       fork, -- Whether they belong to forks of workflows.
       fate, -- What became of the calls: used, superseded by another worker's, failed, refused as an answer, or retried in a later attempt.
       SUM(calls)::bigint AS calls, -- How many calls.
       SUM(input_tokens + output_tokens)::bigint AS tokens, -- Tokens that models read and wrote.
       ROUND(SUM(cost_nano_usd) / 1e9, 9) AS cost_usd -- What they cost in US dollars.
  FROM (
       SELECT usage.time_ms / {ms} AS period, {fork} AS fork,
              CASE
                  WHEN usage.verdict <> 'accepted' THEN 'superseded'
                  WHEN usage.code IS NOT NULL THEN 'failed'
                  WHEN usage.refused THEN 'refused'
                  WHEN usage.attempt < tasks.attempts THEN 'retried'
                  ELSE 'used'
              END AS fate,
              CASE WHEN usage.code IS NULL THEN 1 ELSE usage.tries END AS calls,
              usage.input_tokens, usage.output_tokens, usage.cost_nano_usd
         FROM usage
         LEFT JOIN tasks USING (workflow_id, round, task)
  ) told
 GROUP BY period, fork, fate;

-- How often something was done again, by {period}.
CREATE VIEW {bi}.retries_by_{period} AS
SELECT to_timestamp(period * {seconds}) AS {period}, -- The begin of the {period} in UTC.
       fork, -- Whether they belong to forks of workflows.
       kind, -- What was done again: task (a further attempt), action (a further try), model_call (a further call for one answer) or answer (refused, and asked for again).
       SUM(times)::bigint AS times -- How often.
  FROM (
       SELECT begun_ms / {ms} AS period, {fork} AS fork, 'task' AS kind, COUNT(*) AS times
         FROM steps WHERE attempt > 1 AND step = 1 GROUP BY 1, 2
       UNION ALL
       SELECT COALESCE(completed_ms, started_ms) / {ms}, {fork}, 'action', SUM(tries - 1)
         FROM steps WHERE tries > 1 GROUP BY 1, 2
       UNION ALL
       SELECT time_ms / {ms}, {fork}, 'model_call', SUM(tries - 1)
         FROM usage WHERE code IS NULL AND tries > 1 GROUP BY 1, 2
       UNION ALL
       SELECT time_ms / {ms}, {fork}, 'answer', COUNT(*) FROM usage WHERE refused AND code IS NULL GROUP BY 1, 2
  ) told
 GROUP BY period, fork, kind;

-- Which action followed which in a task, by {period}.
CREATE VIEW {bi}.transitions_by_{period} AS
SELECT to_timestamp((told.at_ms / {ms}) * {seconds}) AS {period}, -- The begin of the {period} in UTC.
       {fork} AS fork, -- Whether they belong to forks of workflows.
       told.from_action, -- The action before; start for the first of a task.
       told.to_action, -- The action after; end where the task has none any more.
       COUNT(*) AS times -- How often.
  FROM (
       SELECT workflow_id, round, task, selected_ms, ended_ms, action,
              LAG(action) OVER told AS before, LEAD(action) OVER told AS after
         FROM steps
        WHERE action IS NOT NULL
       WINDOW told AS (PARTITION BY workflow_id, round, task ORDER BY attempt, step)
  ) steps
  JOIN tasks USING (workflow_id, round, task)
 CROSS JOIN LATERAL (VALUES
       (steps.selected_ms, COALESCE(steps.before, 'start'), steps.action),
       (CASE WHEN steps.after IS NULL AND tasks.ended_ms IS NOT NULL THEN steps.ended_ms END, steps.action, 'end')
 ) AS told (at_ms, from_action, to_action)
 WHERE told.at_ms IS NOT NULL
 GROUP BY told.at_ms / {ms}, 2, told.from_action, told.to_action;

-- What actions did, by {period} and action; those that a fork did not run are left out.
CREATE VIEW {bi}.actions_by_{period} AS
SELECT to_timestamp((completed_ms / {ms}) * {seconds}) AS {period}, -- The begin of the {period} in UTC in which they ended.
       {fork} AS fork, -- Whether they belong to forks of workflows.
       action, -- The action.
       COUNT(*) AS runs, -- How many ended.
       COUNT(*) FILTER (WHERE success) AS succeeded, -- Those that did what they were selected for.
       COUNT(*) FILTER (WHERE success)::float8 / COUNT(*) AS success_share, -- Succeeded of ended, from 0 to 1.
       SUM(tries)::bigint AS tries, -- How often they were begun.
       (percentile_cont(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY duration_ms))[1] AS p50_ms, -- The median in milliseconds, as their workers measured.
       (percentile_cont(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY duration_ms))[2] AS p95_ms, -- The 95th percentile of the same.
       (percentile_cont(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY duration_ms))[3] AS p99_ms -- The 99th percentile of the same.
  FROM steps
 WHERE completed_ms IS NOT NULL AND COALESCE(error_code NOT IN {fork_stops}, TRUE)
 GROUP BY completed_ms / {ms}, 2, action;

-- Documents that came, by {period}, origin and media type.
CREATE VIEW {bi}.documents_by_{period} AS
SELECT to_timestamp((time_ms / {ms}) * {seconds}) AS {period}, -- The begin of the {period} in UTC.
       {fork} AS fork, -- Whether they belong to forks of workflows.
       CASE WHEN label ~ '^round[0-9]+_request$' THEN 'request' ELSE 'action' END AS origin, -- Who brought them: request or action.
       CASE WHEN mime_type ~ '^[a-z]+/[a-z0-9.+-]+$' THEN mime_type ELSE 'other' END AS mime_type, -- Their media type; other where what stands there is none.
       COUNT(*) AS documents, -- How many.
       SUM(size)::bigint AS bytes, -- Their bytes together.
       COUNT(*) FILTER (WHERE by_model) AS by_model, -- Those that a model may have written.
       COUNT(*) FILTER (WHERE page IS NOT NULL) AS from_web -- Those that are pages of the web.
  FROM documents
 GROUP BY time_ms / {ms}, 2, 3, 4;

-- Approvals and how long they took, by {period} in which they were asked for, and action.
CREATE VIEW {bi}.approvals_by_{period} AS
SELECT to_timestamp((approval_ms / {ms}) * {seconds}) AS {period}, -- The begin of the {period} in UTC.
       {fork} AS fork, -- Whether they belong to forks of workflows.
       action, -- The action that they are for.
       COUNT(*) AS asked, -- How many were asked for.
       COUNT(*) FILTER (WHERE approval = 'granted') AS granted, -- Those that were granted.
       COUNT(*) FILTER (WHERE approval = 'denied' AND approval_answered_ms < approval_due_ms) AS denied, -- Those that a person denied.
       COUNT(*) FILTER (WHERE approval = 'denied' AND approval_answered_ms >= approval_due_ms) AS expired, -- Those that nobody answered in time.
       COUNT(*) FILTER (WHERE approval = 'asked' AND status = 'running') AS waiting, -- Those that wait now.
       COUNT(*) FILTER (WHERE approval = 'asked' AND status <> 'running') AS withdrawn, -- Those whose round ended before.
       (percentile_cont(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY approval_answered_ms - approval_ms))[1] AS p50_ms, -- The median in milliseconds of the answers.
       (percentile_cont(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY approval_answered_ms - approval_ms))[2] AS p95_ms, -- The 95th percentile of the same.
       (percentile_cont(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY approval_answered_ms - approval_ms))[3] AS p99_ms -- The 99th percentile of the same.
  FROM steps
 WHERE approval_ms IS NOT NULL
 GROUP BY approval_ms / {ms}, 2, action;

-- Records that nobody can read, by {period} in which they were told of, and topic.
CREATE VIEW {bi}.dead_letters_by_{period} AS
SELECT to_timestamp((time_ms / {ms}) * {seconds}) AS {period}, -- The begin of the {period} in UTC.
       CASE WHEN topic ~ '^[A-Za-z0-9._-]{1,249}$' THEN topic ELSE 'other' END AS topic, -- The topic that they are on.
       COUNT(*) AS dead_letters, -- How many.
       SUM(size)::bigint AS bytes -- Their bytes together.
  FROM dead_letters
 GROUP BY time_ms / {ms}, 2;

-- Answers to requests, by {period} and code: how many were accepted, and why the others were refused.
CREATE VIEW {bi}.requests_by_{period} AS
SELECT to_timestamp((time_ms / {ms}) * {seconds}) AS {period}, -- The begin of the {period} in UTC.
       regexp_replace(type, '^poweron[.](.+)[.]v[0-9]+$', '\1') AS kind, -- The event that answers, such as workflow.requested, cancellation.requested or request.refused.
       answer, -- The answer: accepted or refused.
       CASE WHEN answer = 'refused' THEN COALESCE(code, reason) END AS code, -- The code of why they were refused; empty if they were accepted.
       COUNT(*) AS requests -- How many.
  FROM requests
 GROUP BY time_ms / {ms}, 2, 3, 4;
