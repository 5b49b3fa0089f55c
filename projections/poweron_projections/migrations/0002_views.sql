-- What people ask for most, ready to select from.

-- One line a workflow: what was asked first, how it stands, what it used in all its rounds.
CREATE VIEW workflow_overview AS
SELECT workflows.workflow_id,
       first.prompt,
       workflows.status,
       workflows.stopped_by,
       workflows.round                                        AS rounds,
       latest.mode,
       latest.message,
       COALESCE(used.steps, 0)                                AS steps,
       COALESCE(used.tokens, 0)                               AS tokens,
       COALESCE(used.cost_nano_usd, 0)                        AS cost_nano_usd,
       to_timestamp(workflows.opened_ms / 1000.0)             AS opened,
       to_timestamp(workflows.updated_ms / 1000.0)            AS updated
  FROM workflows
  LEFT JOIN rounds first ON first.workflow_id = workflows.workflow_id AND first.round = 1
  LEFT JOIN rounds latest ON latest.workflow_id = workflows.workflow_id AND latest.round = workflows.round
  LEFT JOIN LATERAL (
       SELECT SUM(steps) AS steps, SUM(input_tokens + output_tokens) AS tokens, SUM(cost_nano_usd) AS cost_nano_usd
         FROM rounds
        WHERE rounds.workflow_id = workflows.workflow_id
  ) used ON TRUE
 WHERE workflows.status <> 'no_workflow';

-- What waits for a person, with everything that is decided about.
CREATE VIEW approvals AS
SELECT workflow_id,
       steps.round,
       steps.task,
       steps.attempt,
       steps.step,
       steps.action,
       steps.objective,
       steps.parameters,
       steps.approval_sha256                             AS parameters_sha256,
       rounds.prompt,
       rounds.actor,
       to_timestamp(steps.approval_ms / 1000.0)          AS asked,
       to_timestamp(steps.approval_due_ms / 1000.0)      AS expires,
       to_timestamp(steps.escalation_due_ms / 1000.0)    AS escalates,
       steps.approval_terms                              AS terms
  FROM workflows
  JOIN steps USING (workflow_id, round, task, attempt, step)
  JOIN rounds USING (workflow_id, round)
 WHERE workflows.is_open AND workflows.phase = 'approve';

-- What each model cost on each day, superseded calls included: they were paid for.
CREATE VIEW usage_by_day AS
SELECT date_trunc('day', to_timestamp(records.time_ms / 1000.0) AT TIME ZONE 'UTC')::date AS day,
       usage.provider,
       usage.model,
       usage.type,
       COUNT(*) FILTER (WHERE usage.code IS NULL) AS calls,
       COALESCE(SUM(usage.tries) FILTER (WHERE usage.code IS NOT NULL), 0) AS failed_calls,
       SUM(usage.input_tokens)        AS input_tokens,
       SUM(usage.output_tokens)       AS output_tokens,
       SUM(usage.cached_input_tokens) AS cached_input_tokens,
       SUM(usage.reasoning_tokens)    AS reasoning_tokens,
       SUM(usage.cost_nano_usd)       AS cost_nano_usd
  FROM usage
  JOIN records USING (workflow_id, seq)
 GROUP BY 1, 2, 3, 4;
