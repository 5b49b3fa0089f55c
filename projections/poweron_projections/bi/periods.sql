-- Rounds and their ends, by {period} and mode: a round counts as opened in the {period} of its opening and as ended in the {period} of its end.
CREATE VIEW {bi}.outcomes_by_{period} AS
SELECT to_timestamp(period * {seconds}) AS {period}, -- The beginning of the {period} in UTC.
       fork, -- Whether the row counts forks of workflows.
       mode, -- The mode: React or Actionplan.
       COUNT(*) FILTER (WHERE opening) AS opened, -- The number of opened rounds.
       COUNT(*) FILTER (WHERE NOT opening) AS ended, -- The number of ended rounds.
       COUNT(*) FILTER (WHERE NOT opening AND status = 'completed') AS completed, -- Ended rounds that did what the user asked for.
       COUNT(*) FILTER (WHERE NOT opening AND status = 'failed' AND NOT fork_stopped) AS failed, -- Ended rounds that failed, without forks that stopped.
       COUNT(*) FILTER (WHERE NOT opening AND status = 'cancelled') AS cancelled, -- Ended rounds that someone cancelled.
       COUNT(*) FILTER (WHERE NOT opening AND fork_stopped) AS forks_stopped, -- Ended rounds of forks that stopped because no recorded result was left and the fork may not run the action.
       COUNT(*) FILTER (WHERE NOT opening AND status = 'completed')::float8 / NULLIF(COUNT(*) FILTER (WHERE NOT opening AND NOT fork_stopped), 0) AS success_share, -- The share of completed rounds in ended rounds, from 0 to 1, without forks that stopped.
       COALESCE(SUM(steps), 0)::bigint AS steps, -- Steps of the ended rounds.
       (percentile_cont(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY ms))[1] AS p50_ms, -- The median duration of the ended rounds in milliseconds, without the time spent waiting for people.
       (percentile_cont(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY ms))[2] AS p95_ms, -- The 95th percentile.
       (percentile_cont(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY ms))[3] AS p99_ms, -- The 99th percentile.
       COALESCE(SUM(waited_ms), 0)::bigint AS waiting_for_people_ms -- Milliseconds that the ended rounds waited for approvals.
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

-- Reasons of stops as codes, by {period}.
CREATE VIEW {bi}.stops_by_{period} AS
SELECT to_timestamp(period * {seconds}) AS {period}, -- The beginning of the {period} in UTC.
       fork, -- Whether the row counts forks of workflows.
       level, -- What stopped: round, task, step, action or model_call.
       code, -- The reason, as a code.
       SUM(times)::bigint AS times -- The number of times.
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

-- The duration of stages, by {period}; the time that people took is a stage of its own.
CREATE VIEW {bi}.stage_times_by_{period} AS
SELECT to_timestamp(period * {seconds}) AS {period}, -- The beginning of the {period} in UTC in which they ended.
       fork, -- Whether the row counts forks of workflows.
       (ARRAY['plan', 'plan_actions', 'select', 'parameterize', 'approve', 'claim', 'execute', 'observe', 'refine', 'review'])[stage] AS stage, -- The stage: plan, plan_actions, select, parameterize, approve, claim, execute, observe, refine or review.
       stage = 5 AS by_people, -- Whether it is the time that people took.
       COUNT(*) AS times, -- The number of ended stages.
       (percentile_cont(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY ms))[1] AS p50_ms, -- The median in milliseconds.
       (percentile_cont(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY ms))[2] AS p95_ms, -- The 95th percentile.
       (percentile_cont(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY ms))[3] AS p99_ms, -- The 99th percentile.
       SUM(ms)::bigint AS total_ms -- The total in milliseconds.
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

-- Usage and cost of models, by {period}, model and stage, including calls with unused answers.
CREATE VIEW {bi}.model_usage_by_{period} AS
SELECT to_timestamp((time_ms / {ms}) * {seconds}) AS {period}, -- The beginning of the {period} in UTC.
       {fork} AS fork, -- Whether the row counts forks of workflows.
       provider, -- The provider; empty for failed calls.
       model, -- The model; empty for failed calls.
       stage, -- The stage.
       COUNT(*) FILTER (WHERE code IS NULL) AS calls, -- The number of answered calls.
       COALESCE(SUM(tries) FILTER (WHERE code IS NOT NULL), 0)::bigint AS failed_calls, -- The number of failed calls.
       SUM(input_tokens)::bigint AS input_tokens, -- Tokens that models read.
       SUM(output_tokens)::bigint AS output_tokens, -- Tokens that models wrote.
       SUM(cached_input_tokens)::bigint AS cached_input_tokens, -- Input tokens that a provider read from its cache.
       SUM(reasoning_tokens)::bigint AS reasoning_tokens, -- Output tokens that the model used for reasoning.
       ROUND(SUM(cost_nano_usd) / 1e9, 9) AS cost_usd, -- The cost in US dollars.
       SUM(duration_ms)::bigint AS duration_ms -- The total duration of the calls in milliseconds.
  FROM usage
 GROUP BY time_ms / {ms}, 2, provider, model, stage;

-- The cost of a completed task, by {period}: the cost of all model calls divided by the number of completed tasks.
CREATE VIEW {bi}.task_costs_by_{period} AS
SELECT to_timestamp(period * {seconds}) AS {period}, -- The beginning of the {period} in UTC.
       fork, -- Whether the row counts forks of workflows.
       SUM(ended)::bigint AS tasks, -- The number of ended tasks.
       SUM(completed)::bigint AS completed, -- Ended tasks that succeeded.
       ROUND(SUM(cost_nano_usd) / 1e9, 9) AS cost_usd, -- The cost of all model calls in US dollars.
       ROUND(SUM(cost_nano_usd) / 1e9 / NULLIF(SUM(completed), 0), 9) AS cost_per_completed_usd, -- The cost for each task that succeeded, in US dollars.
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

-- The cost of model calls, by {period} and by what happened to them: used, superseded, failed, refused or retried.
CREATE VIEW {bi}.spending_by_{period} AS
SELECT to_timestamp(period * {seconds}) AS {period}, -- The beginning of the {period} in UTC.
       fork, -- Whether the row counts forks of workflows.
       fate, -- What happened to the calls: used, superseded by another worker's, failed, refused as an answer, or retried in a later attempt.
       SUM(calls)::bigint AS calls, -- The number of calls.
       SUM(input_tokens + output_tokens)::bigint AS tokens, -- Tokens that models read and wrote.
       ROUND(SUM(cost_nano_usd) / 1e9, 9) AS cost_usd -- The cost in US dollars.
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

-- Repetitions, by {period}.
CREATE VIEW {bi}.retries_by_{period} AS
SELECT to_timestamp(period * {seconds}) AS {period}, -- The beginning of the {period} in UTC.
       fork, -- Whether the row counts forks of workflows.
       kind, -- The repeated work: task (a further attempt), action (a further try), model_call (a further call for one answer) or answer (a request for a new answer after a refused one).
       SUM(times)::bigint AS times -- The number of times.
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

-- Pairs of consecutive actions in a task, by {period}.
CREATE VIEW {bi}.transitions_by_{period} AS
SELECT to_timestamp((told.at_ms / {ms}) * {seconds}) AS {period}, -- The beginning of the {period} in UTC.
       {fork} AS fork, -- Whether the row counts forks of workflows.
       told.from_action, -- The earlier action; start for the first of a task.
       told.to_action, -- The later action; end after the last of a task.
       COUNT(*) AS times -- The number of times.
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

-- Actions, by {period} and action, without those that a fork did not run.
CREATE VIEW {bi}.actions_by_{period} AS
SELECT to_timestamp((completed_ms / {ms}) * {seconds}) AS {period}, -- The beginning of the {period} in UTC in which they ended.
       {fork} AS fork, -- Whether the row counts forks of workflows.
       action, -- The action.
       COUNT(*) AS runs, -- The number of ended actions.
       COUNT(*) FILTER (WHERE success) AS succeeded, -- Ended actions that succeeded.
       COUNT(*) FILTER (WHERE success)::float8 / COUNT(*) AS success_share, -- The share of succeeded actions in ended actions, from 0 to 1.
       SUM(tries)::bigint AS tries, -- The number of tries.
       (percentile_cont(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY duration_ms))[1] AS p50_ms, -- The median duration in milliseconds, measured by their workers.
       (percentile_cont(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY duration_ms))[2] AS p95_ms, -- The 95th percentile.
       (percentile_cont(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY duration_ms))[3] AS p99_ms -- The 99th percentile.
  FROM steps
 WHERE completed_ms IS NOT NULL AND COALESCE(error_code NOT IN {fork_stops}, TRUE)
 GROUP BY completed_ms / {ms}, 2, action;

-- Documents that arrived, by {period}, origin and media type.
CREATE VIEW {bi}.documents_by_{period} AS
SELECT to_timestamp((time_ms / {ms}) * {seconds}) AS {period}, -- The beginning of the {period} in UTC.
       {fork} AS fork, -- Whether the row counts forks of workflows.
       CASE WHEN label ~ '^round[0-9]+_request$' THEN 'request' ELSE 'action' END AS origin, -- The origin: request or action.
       CASE WHEN mime_type ~ '^[a-z]+/[a-z0-9.+-]+$' THEN mime_type ELSE 'other' END AS mime_type, -- The media type; other if the given one is invalid.
       COUNT(*) AS documents, -- The number of documents.
       SUM(size)::bigint AS bytes, -- Their total size in bytes.
       COUNT(*) FILTER (WHERE by_model) AS by_model, -- Documents that a model may have written.
       COUNT(*) FILTER (WHERE page IS NOT NULL) AS from_web -- Documents that are web pages.
  FROM documents
 GROUP BY time_ms / {ms}, 2, 3, 4;

-- Approvals and their duration, by {period} of the request and action.
CREATE VIEW {bi}.approvals_by_{period} AS
SELECT to_timestamp((approval_ms / {ms}) * {seconds}) AS {period}, -- The beginning of the {period} in UTC.
       {fork} AS fork, -- Whether the row counts forks of workflows.
       action, -- The action that needs them.
       COUNT(*) AS asked, -- The number of requested approvals.
       COUNT(*) FILTER (WHERE approval = 'granted') AS granted, -- Granted approvals.
       COUNT(*) FILTER (WHERE approval = 'denied' AND (approval_by IS NOT NULL OR approval_answered_ms < approval_due_ms)) AS denied, -- Approvals that a person denied.
       COUNT(*) FILTER (WHERE approval = 'denied' AND approval_by IS NULL AND approval_answered_ms >= approval_due_ms) AS expired, -- Approvals that no one answered in time.
       COUNT(*) FILTER (WHERE approval = 'asked' AND status = 'running') AS waiting, -- Approvals that are waiting now.
       COUNT(*) FILTER (WHERE approval = 'asked' AND status <> 'running') AS withdrawn, -- Approvals whose round ended first.
       (percentile_cont(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY approval_answered_ms - approval_ms))[1] AS p50_ms, -- The median time to the answer in milliseconds.
       (percentile_cont(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY approval_answered_ms - approval_ms))[2] AS p95_ms, -- The 95th percentile.
       (percentile_cont(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY approval_answered_ms - approval_ms))[3] AS p99_ms -- The 99th percentile.
  FROM steps
 WHERE approval_ms IS NOT NULL
 GROUP BY approval_ms / {ms}, 2, action;

-- Unreadable records, by {period} of their report and topic.
CREATE VIEW {bi}.dead_letters_by_{period} AS
SELECT to_timestamp((time_ms / {ms}) * {seconds}) AS {period}, -- The beginning of the {period} in UTC.
       CASE WHEN topic ~ '^[A-Za-z0-9._-]{1,249}$' THEN topic ELSE 'other' END AS topic, -- The topic of the records.
       COUNT(*) AS dead_letters, -- The number of records.
       SUM(size)::bigint AS bytes -- Their total size in bytes.
  FROM dead_letters
 GROUP BY time_ms / {ms}, 2;

-- Answers to requests, by {period} and code: how many were accepted, and why the others were refused.
CREATE VIEW {bi}.requests_by_{period} AS
SELECT to_timestamp((time_ms / {ms}) * {seconds}) AS {period}, -- The beginning of the {period} in UTC.
       regexp_replace(type, '^poweron[.](.+)[.]v[0-9]+$', '\1') AS kind, -- The event of the answer, such as workflow.requested, cancellation.requested or request.refused.
       answer, -- The answer: accepted or refused.
       CASE WHEN answer = 'refused' THEN COALESCE(code, reason) END AS code, -- Why they were refused, as a code; empty if they were accepted.
       COUNT(*) AS requests -- The number of answers.
  FROM requests
 GROUP BY time_ms / {ms}, 2, 3, 4;
