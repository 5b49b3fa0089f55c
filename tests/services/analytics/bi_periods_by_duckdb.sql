-- The same by {period}, counted in the rows that DuckDB made of the events; `{ms}` is how long one is.

CREATE OR REPLACE MACRO begin_of(at_ms) AS at_ms // {ms} * {ms};

CREATE TABLE outcomes_by_{period} AS
WITH both_ends AS (
     SELECT begin_of(opened_at) AS {period}, fork, mode, NULL AS status, NULL AS steps, NULL AS ms, NULL AS waited FROM rounds
      UNION ALL
     SELECT begin_of(ended_at), fork, mode, CASE WHEN stopped_by LIKE 'fork\_%' ESCAPE '\' THEN 'fork stopped' ELSE status END,
            steps, duration_ms - waiting_for_people_ms, waiting_for_people_ms
       FROM rounds WHERE ended_at IS NOT NULL
)
SELECT {period}, fork, mode, count(*) FILTER (status IS NULL) AS opened, count(status) AS ended,
       count(*) FILTER (status = 'completed') AS completed, count(*) FILTER (status = 'failed') AS failed,
       count(*) FILTER (status = 'cancelled') AS cancelled, count(*) FILTER (status = 'fork stopped') AS forks_stopped,
       CASE WHEN ended > forks_stopped THEN completed / (ended - forks_stopped) END AS success_share,
       COALESCE(sum(steps), 0) AS steps, quantile_cont(ms, 0.5) AS p50_ms, quantile_cont(ms, 0.95) AS p95_ms,
       quantile_cont(ms, 0.99) AS p99_ms, COALESCE(sum(waited), 0) AS waiting_for_people_ms
  FROM both_ends GROUP BY ALL;

CREATE TABLE stops_by_{period} AS
WITH stopped AS (
     SELECT ended_at AS at_ms, workflow_id AS workflow, 'round' AS level, stopped_by AS code, 1 AS times FROM rounds
      UNION ALL SELECT ended_at, workflow_id, 'task', stopped_by, 1 FROM tasks
      UNION ALL SELECT ended, workflow, 'step', stopped_by, 1 FROM lived
      UNION ALL SELECT time_ms, workflow, 'action', data.code, 1 FROM told WHERE kind = 'action.completed' AND NOT gave_up
      UNION ALL SELECT time_ms, workflow, 'model_call', code, tries FROM calls
)
SELECT begin_of(at_ms) AS {period}, workflow IN (FROM forks) AS fork, level, code, sum(times) AS times
  FROM stopped WHERE at_ms IS NOT NULL AND code IS NOT NULL GROUP BY ALL;

CREATE TABLE stage_times_by_{period} AS
WITH stages AS (
     SELECT workflow, plans.time_ms AS ended, 'plan' AS stage, plans.time_ms - opened_ms AS ms
       FROM plans JOIN openings USING (workflow, round) WHERE task = 1
      UNION ALL
     SELECT workflow, selected, CASE WHEN mode = 'Actionplan' AND step = 1 THEN 'plan_actions' ELSE 'select' END, select_ms FROM lived
      UNION ALL SELECT workflow, parameterized, 'parameterize', parameterize_ms FROM lived
      UNION ALL SELECT workflow, answered, 'approve', approve_ms FROM lived
      UNION ALL SELECT workflow, claimed, 'claim', claim_ms FROM lived
      UNION ALL SELECT workflow, completed, 'execute', execute_ms FROM lived
      UNION ALL SELECT workflow, observed, 'observe', observe_ms FROM lived
      UNION ALL SELECT workflow, refined, 'refine', refine_ms FROM lived
      UNION ALL
     SELECT workflow, time_ms, 'review', time_ms - (
            SELECT max(ended) FROM lived WHERE lived.workflow = told.workflow AND lived.round = told.round
               AND lived.task = told.task AND lived.attempt = told.attempt)
       FROM told WHERE kind = 'task.reviewed'
)
SELECT begin_of(ended) AS {period}, workflow IN (FROM forks) AS fork, stage, stage = 'approve' AS by_people, count(*) AS times,
       quantile_cont(ms, 0.5) AS p50_ms, quantile_cont(ms, 0.95) AS p95_ms, quantile_cont(ms, 0.99) AS p99_ms,
       sum(ms) AS total_ms
  FROM stages WHERE ended IS NOT NULL GROUP BY ALL;

CREATE TABLE model_usage_by_{period} AS
SELECT begin_of(recorded_at) AS {period}, workflow_id IN (FROM forks) AS fork, provider, model, stage, count(*) FILTER (code IS NULL) AS calls,
       COALESCE(sum(tries) FILTER (code IS NOT NULL), 0) AS failed_calls, sum(input_tokens) AS input_tokens,
       sum(output_tokens) AS output_tokens, sum(cached_input_tokens) AS cached_input_tokens,
       sum(reasoning_tokens) AS reasoning_tokens, sum(cost_usd) AS cost_usd, sum(duration_ms) AS duration_ms
  FROM model_calls GROUP BY ALL;

CREATE TABLE task_costs_by_{period} AS
WITH both_sides AS (
     SELECT recorded_at AS at_ms, workflow_id, 0 AS ended, 0 AS completed, cost_usd AS cost, input_tokens + output_tokens AS tokens
       FROM model_calls
      UNION ALL
     SELECT ended_at, workflow_id, 1, CASE status WHEN 'success' THEN 1 ELSE 0 END, 0, 0 FROM tasks WHERE ended_at IS NOT NULL
)
SELECT begin_of(at_ms) AS {period}, workflow_id IN (FROM forks) AS fork, sum(ended) AS tasks, sum(completed) AS completed, sum(cost) AS cost_usd,
       round(sum(cost) / nullif(sum(completed), 0))::BIGINT AS cost_per_completed_usd, sum(tokens) AS tokens
  FROM both_sides GROUP BY 1, 2;

CREATE TABLE spending_by_{period} AS
SELECT begin_of(recorded_at) AS {period}, workflow_id IN (FROM forks) AS fork, fate, sum(calls) AS calls, sum(input_tokens + output_tokens) AS tokens,
       sum(cost_usd) AS cost_usd
  FROM model_calls GROUP BY ALL;

CREATE TABLE retries_by_{period} AS
WITH again AS (
     SELECT workflow, begun AS at_ms, 'task' AS kind, 1 AS times FROM lived WHERE attempt > 1 AND step = 1
      UNION ALL SELECT workflow, COALESCE(completed, noted), 'action', tries - 1 FROM lived
      UNION ALL SELECT workflow_id, recorded_at, 'model_call', tries - 1 FROM model_calls WHERE code IS NULL
      UNION ALL SELECT workflow, time_ms, 'answer', 1 FROM calls WHERE kind LIKE '%.rejected' AND code IS NULL
)
SELECT begin_of(at_ms) AS {period}, workflow IN (FROM forks) AS fork, kind, sum(times) AS times FROM again WHERE times > 0 GROUP BY ALL;

CREATE TABLE transitions_by_{period} AS
WITH acted AS (
     SELECT lived.*, lag(action) OVER told AS before, lead(action) OVER told AS after, task_ends.ended_ms
       FROM lived LEFT JOIN task_ends USING (workflow, round, task)
      WHERE action IS NOT NULL
     WINDOW told AS (PARTITION BY workflow, round, task ORDER BY attempt, step)
), each AS (
     SELECT workflow, selected AS at_ms, COALESCE(before, 'start') AS from_action, action AS to_action FROM acted
      UNION ALL SELECT workflow, ended, action, 'end' FROM acted WHERE after IS NULL AND ended_ms IS NOT NULL
)
SELECT begin_of(at_ms) AS {period}, workflow IN (FROM forks) AS fork, from_action, to_action, count(*) AS times
  FROM each WHERE at_ms IS NOT NULL GROUP BY ALL;

CREATE TABLE actions_by_{period} AS
SELECT begin_of(completed) AS {period}, workflow IN (FROM forks) AS fork, action, count(*) AS runs, count(*) FILTER (success) AS succeeded,
       count(*) FILTER (success) / count(*) AS success_share, sum(tries) AS tries, quantile_cont(took, 0.5) AS p50_ms,
       quantile_cont(took, 0.95) AS p95_ms, quantile_cont(took, 0.99) AS p99_ms
  FROM lived WHERE completed IS NOT NULL GROUP BY ALL;

CREATE TABLE documents_by_{period} AS
SELECT begin_of(arrived_at) AS {period}, workflow_id IN (FROM forks) AS fork, origin, mime_type, count(*) AS documents, sum(size) AS bytes,
       count(*) FILTER (by_model) AS by_model, count(*) FILTER (from_web) AS from_web
  FROM documents GROUP BY ALL;

CREATE TABLE approvals_by_{period} AS
SELECT begin_of(asked_at) AS {period}, workflow_id IN (FROM forks) AS fork, action, count(*) AS asked, count(*) FILTER (answer = 'granted') AS granted,
       count(*) FILTER (answer = 'denied') AS denied, count(*) FILTER (answer = 'expired') AS expired,
       count(*) FILTER (answer = 'waiting') AS waiting, count(*) FILTER (answer = 'withdrawn') AS withdrawn,
       quantile_cont(waiting_ms, 0.5) AS p50_ms, quantile_cont(waiting_ms, 0.95) AS p95_ms,
       quantile_cont(waiting_ms, 0.99) AS p99_ms
  FROM approvals GROUP BY ALL;

CREATE TABLE dead_letters_by_{period} AS
SELECT begin_of(told_at) AS {period}, topic, count(*) AS dead_letters, sum(size) AS bytes FROM dead_letters GROUP BY ALL;

CREATE TABLE requests_by_{period} AS
SELECT begin_of(answered_at) AS {period}, kind, answer, code, count(*) AS requests FROM requests GROUP BY ALL;
