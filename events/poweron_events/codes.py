"""The codes that say why something stopped, failed or was rejected, for programs that branch on them or count them.

An event gives each reason twice: as a sentence for people, which may change with every release, and as a code,
which does not. The vocabulary is open: a newer release, or an action from outside this package, may write a code
that is not listed here. Events of release 0.2 or older have no codes.
"""

from typing import Annotated, Final, Literal, NamedTuple

from pydantic import Field

Code = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=64)]
"""A code on the wire: lower-case words joined by underscores."""

BudgetCode = Literal["token_budget", "cost_budget", "time_budget", "step_budget", "retry_budget", "daily_limit"]
"""The budget that is used up: of the task, the round or the workflow, or the daily quota of an actor or a source."""

GuardCode = Literal[BudgetCode, "cancelled", "deadline", "criteria_met", "no_improvement", "step_limit", "retry_limit"]
"""Why the rules in code stop the loop."""

StopCode = Literal[GuardCode, "answers_rejected", "judged_by_model", "not_stated", "plan_done", "plan_failed"]
"""Why an attempt stopped, or why its review gave this status."""

ForkStopCode = Literal["fork_needs_live", "fork_never_runs"]
"""Why a fork ends before its work is done: it has no recorded result for the next action, and does not run it."""

RefusalCode = Literal[
    "already_approved",
    "already_denied",
    "already_paused",
    "answer_superseded",
    "content_erased",
    "answered_already",
    "approval_overdue",
    "document_missing",
    "invalid_request",
    "unknown_seq",
    "no_policy",
    "no_such_hold",
    "no_such_round",
    "not_an_approver",
    "not_paused",
    "not_permitted",
    "nothing_to_approve",
    "nothing_to_erase",
    "on_hold",
    "other_parameters",
    "own_proposal",
    "own_request",
    "parameter_invalid",
    "pattern_meaningless",
    "policy_applies_already",
    "policy_changed",
    "policy_invalid",
    "price_unknown",
    "request_too_large",
    "retention_not_over",
    "round_ended",
    "round_open",
    "too_many_waiting",
    "unknown_connection",
    "unknown_document",
    "unknown_model",
    "unknown_workflow",
]
"""Why a request is refused."""

UnreadCode = Literal[
    "document_damaged",
    "document_empty",
    "document_format_unknown",
    "document_protected",
    "document_timeout",
    "document_too_large",
    "document_unsafe",
    "document_without_text",
    "partly_read",
]
"""Why a document, or a part of it, was not read."""

RUN_TIME: Final[frozenset[str]] = frozenset(
    {
        "answer_limit_too_large",
        "claim_lost",
        "content_store_unavailable",
        "event_too_large",
        "event_unwritable",
        "model_access_denied",
        "model_busy",
        "model_misconfigured",
        "model_quota_exceeded",
        "model_refused",
        "model_timeout",
        "model_unavailable",
        "model_unknown",
        "price_unknown",
        "result_not_stored",
        "search_busy",
        "search_failed",
        "search_misconfigured",
        "search_quota",
        "search_timeout",
        "search_unauthorized",
        "stage_timeout",
        "tool_changed",
        "tool_server_unavailable",
        "unavailable",
        "unexpected_error",
        "worker_stopped",
    }
)
"""Problems of the service, not of the work. The sentences next to these codes are for people and may name
providers, settings and paths, so they are never shown to a model (S8)."""

FOR_PEOPLE: Final[frozenset[str]] = RUN_TIME | {
    "answer_cut_off",
    "answer_empty",
    "answer_refused",
    "document_missing",
    "prompt_too_long",
}
"""Codes whose sentences are for people only: a model gets neutral wording for each instead."""


class Explained(NamedTuple):
    """What a code means, and what to do about it."""

    meaning: str
    remedy: str


_EXPECTED: Final = "Nothing: this is a regular end."
_NOTHING: Final = "Nothing."
_LARGER_BUDGET: Final = "Ask again with a larger budget, or for less."
_CHANGE: Final = "Change the request or its documents and ask again."
_MODEL_TRIES: Final = (
    "Nothing after the first one: PowerOn asks the model again. If it happens often, use another model."
)
_AGAIN: Final = "Ask again later; see the log of the service."

CODES: Final[dict[str, Explained]] = {
    # --- why an attempt, a task or a round stopped
    "criteria_met": Explained("All success criteria are met.", _EXPECTED),
    "no_improvement": Explained("No further action can improve the result.", _EXPECTED),
    "judged_by_model": Explained("The model's review decided it.", "Read the reason next to the code."),
    "not_stated": Explained(
        "What was read does not say what was asked for.",
        "Add the document that says it, or ask for what the documents say.",
    ),
    "plan_done": Explained("All planned actions are done (mode Actionplan).", _EXPECTED),
    "plan_failed": Explained("A planned action failed; the actions after it did not run (mode Actionplan).", _CHANGE),
    "step_limit": Explained("The attempt used all its steps.", "Ask again with more steps (`maxSteps`)."),
    "retry_limit": Explained("The task used all its retries (`maxRetries`).", _CHANGE),
    "token_budget": Explained("A token budget is used up, or too small for the next call.", _LARGER_BUDGET),
    "cost_budget": Explained("A money budget is used up, or too small for the next call.", _LARGER_BUDGET),
    "time_budget": Explained("The time budget of a task is used up.", _LARGER_BUDGET),
    "step_budget": Explained("The workflow's step budget is used up.", _LARGER_BUDGET),
    "retry_budget": Explained("The workflow's retry budget is used up.", _LARGER_BUDGET),
    "daily_limit": Explained(
        "The daily quota of this actor or source is used up, or what is left is too little for the next call.",
        "Ask again on the next day (UTC), or have the quota raised.",
    ),
    "fork_needs_live": Explained(
        "A fork reached an action for which the forked workflow has no result, and may not run it.",
        "Fork again and allow it to run actions.",
    ),
    "fork_never_runs": Explained(
        "A fork reached an action without a result whose effect must not happen twice.",
        "Ask for it in a separate request.",
    ),
    "cancelled": Explained("Someone cancelled the round.", "Nothing; you can follow up on the workflow."),
    "deadline": Explained("The round's deadline has passed (`deadlineMs`).", "Ask again for less at once."),
    "answers_rejected": Explained(
        "Two answers of the model in a row were rejected.", "Use another model, or ask in other words."
    ),
    # --- why an answer of a model was rejected
    "answer_echoed": Explained("The answer only repeats the instructions.", _MODEL_TRIES),
    "answer_unreadable": Explained("The answer is not the requested JSON.", _MODEL_TRIES),
    "answer_refused": Explained("The model, or a filter of its provider, refused to answer.", "Use other words."),
    "answer_cut_off": Explained("The answer reached its token limit.", "Allow longer answers, or a larger budget."),
    "answer_empty": Explained("The answer of the model is empty.", _MODEL_TRIES),
    "answer_too_large": Explained("The answer does not fit into an event.", _MODEL_TRIES),
    "action_not_allowed": Explained(
        "The action does not exist, or this task may not use it.", "Check `allowedMethods` and `deniedMethods`."
    ),
    "field_not_allowed": Explained("The schema of the parameters contains a forbidden field.", _MODEL_TRIES),
    "documents_missing": Explained("The action needs documents, and the model named none.", _MODEL_TRIES),
    "address_unknown": Explained(
        "The model named a web address that neither the request nor a result contains.",
        "Give the address in the request, or in a document.",
    ),
    "path_unknown": Explained(
        "The model named a path that neither the request, a result of the same server nor the settings contain.",
        "Give the path or its folder in the request.",
    ),
    "unknown_reference": Explained("A reference matches no document of the workflow.", _MODEL_TRIES),
    "connection_missing": Explained("The action needs a connection, and the model named none.", _MODEL_TRIES),
    "unknown_connection": Explained(
        "The request does not allow the connection, or it is not configured.",
        "List a configured connection in `connections`.",
    ),
    "connection_unusable": Explained(
        "The connection is not configured where the action runs, or one of its secrets cannot be read.",
        "Correct the settings of the connection; the detail says what is missing.",
    ),
    "plan_too_long": Explained("The plan has more actions than the task has steps.", _MODEL_TRIES),
    "parameter_missing": Explained("A required parameter is missing.", _MODEL_TRIES),
    "parameter_invalid": Explained("A parameter has a value that the action does not accept.", _MODEL_TRIES),
    # --- why a stage, or a model within an action, could not do its work
    "model_unavailable": Explained("The model is unreachable, or its provider has a problem.", _AGAIN),
    "model_busy": Explained("The model receives too many requests.", "Ask again later, or ask for less at once."),
    "model_timeout": Explained("The model did not answer in time.", "Ask again later, or allow it more time."),
    "model_access_denied": Explained("The provider denies access.", "Set a key that is valid for this model."),
    "model_unknown": Explained(
        "The provider has no such model.", "Correct the model's name or its provider's address."
    ),
    "model_quota_exceeded": Explained(
        "The account at the provider has reached its spending limit.", "Raise the limit."
    ),
    "answer_limit_too_large": Explained(
        "The limit of the answer is larger than the model supports.", "Lower the limit of its answers."
    ),
    "model_refused": Explained("The provider refused the request.", "Read its message next to the code."),
    "model_misconfigured": Explained("The model's settings are invalid.", "Correct the model's settings."),
    "prompt_too_long": Explained(
        "The prompt is too long for the model.", "Provide less text, or use a model with a larger context window."
    ),
    "content_store_unavailable": Explained(
        "The content store did not answer.", "Make sure that it is reachable, then ask again."
    ),
    "stage_timeout": Explained("The stage reached its time limit (`stageTimeoutMs`).", _AGAIN),
    "unavailable": Explained("Something that the work needs was unreachable.", _AGAIN),
    "event_too_large": Explained("The event would be too large.", _CHANGE),
    "event_unwritable": Explained("The event would contain text that is not Unicode.", _CHANGE),
    "refused": Explained("The work was refused; the reason is next to the code.", _CHANGE),
    "content_lost": Explained(
        "The content store contains nothing that recent events refer to.",
        "Restore it from a copy, or correct its path.",
    ),
    "rows_differ": Explained(
        "Rows in Postgres differ from the log.", "Compare all rows with the log, and rebuild them from it."
    ),
    "rows_missing": Explained("The rows of a workflow in the log are missing.", "Rebuild the rows from the log."),
    "unexpected_error": Explained("The service met an unexpected error.", "See the log of the service."),
    # --- why a dead letter is not sent again
    "not_redrivable": Explained(
        "Only dead letters from `poweron.requests` can be sent again.",
        "Nothing: an unreadable record of another topic has no effect, and nothing has to be repeated.",
    ),
    "unknown_dead_letter": Explained("There is no such dead letter.", "Copy its place from the list of dead letters."),
    # --- why an action has no result
    "approval_denied": Explained("A person denied the action.", "Ask again once the person would approve it."),
    "approval_expired": Explained("No one approved the action in time.", "Ask again and have it approved in time."),
    "approval_missing": Explained("The action needs an approval that it does not have.", _AGAIN),
    "action_failed": Explained("The action failed; the reason is next to the code.", _CHANGE),
    "action_timeout": Explained("The action reached its time limit.", "Ask again for less at once."),
    "claim_lost": Explained("The worker lost its claim before the action began.", "Nothing: the loop continues."),
    "worker_stopped": Explained("The worker stopped before the action ended.", "Keep the processes running."),
    "round_stopped": Explained("The round was stopped before the action ended.", "Nothing; see why the round stopped."),
    "result_not_stored": Explained(
        "The action ended, but its result could not be stored.", "Make sure that the content store is reachable."
    ),
    "nothing_to_read": Explained("There is no document to work on.", "Attach a document."),
    "documents_unreadable": Explained(
        "None of the documents could be read.", "Read the reason for each, and attach them again."
    ),
    "output_invalid": Explained(
        "The model's text is not in the requested format.", "Use another model, or ask for another format."
    ),
    "tool_changed": Explained(
        "PowerOn did not call the tool, because its server declares it differently than when it was approved.",
        "Check what changed, and approve it.",
    ),
    "tool_failed": Explained(
        "The tool of a server reported a failure, or returned nothing readable.",
        "Read its message in its document, and ask for something else.",
    ),
    "tool_result_too_large": Explained(
        "The result of a server's tool is larger than the limit.", "Ask the tool for less at once."
    ),
    "tool_server_ended": Explained(
        "The tool server, or the connection to it, ended before it answered.", "Find out why the server ends."
    ),
    "tool_server_unavailable": Explained(
        "The tool server cannot be started or reached.", "Make sure that it starts and is reachable."
    ),
    "nothing_found": Explained("The search found no page.", "Ask in other words."),
    # --- why a document was not read
    "document_damaged": Explained("The document is damaged.", "Check it and attach it again."),
    "document_empty": Explained("The document is empty.", "Check that the file is complete."),
    "document_format_unknown": Explained(
        "PowerOn cannot read documents of this format.", "Save it in a supported format."
    ),
    "document_protected": Explained("The document is protected by a password.", "Save it without the password."),
    "document_timeout": Explained("Reading the document took too long.", "Attach a smaller part of it."),
    "document_too_large": Explained("The document is too large.", "Attach a smaller part of it."),
    "document_unsafe": Explained(
        "PowerOn did not open the document, because opening it could do harm.",
        "Open it in its own program and save it as a new file.",
    ),
    "document_without_text": Explained("The document contains no readable text.", "Attach a version with text."),
    "partly_read": Explained("Part of the document was not read.", "Attach that part as a document of its own."),
    # --- why a page of the web was not read
    "address_refused": Explained(
        "The address is not that of a public page, or the settings forbid it.",
        "Use another page, or have its host allowed.",
    ),
    "page_unavailable": Explained("The page does not exist, or its server is unreachable.", "Use another page."),
    "page_timeout": Explained("The page did not arrive in time.", "Ask again later, or for another page."),
    "page_too_large": Explained("The page is larger than the limit.", "Use a smaller page."),
    "page_needs_consent": Explained("The page asks for consent before it shows its text.", "Attach its text."),
    "page_needs_javascript": Explained(
        "The page shows its text only in a browser that runs its scripts.", "Attach its text."
    ),
    "page_needs_login": Explained("The page requires a login.", "Attach its text."),
    "robots_disallowed": Explained(
        "The host's rules for robots forbid reading the page.", "Read the page yourself and attach its text."
    ),
    # --- why a file was not handed over
    "file_missing": Explained("The file does not exist.", "Check its path."),
    "file_not_allowed": Explained(
        "The file is outside the allowed folders, or it is a link, hidden or too large.",
        "Allow its folder, or attach its text.",
    ),
    # --- why a request was refused
    "invalid_request": Explained(
        "The request is malformed.", "Correct the field that the message names, and send it again."
    ),
    "request_too_large": Explained(
        "The request or one of its documents is too large.", "Shorten the prompt, or send smaller or fewer documents."
    ),
    "pattern_meaningless": Explained("A pattern in `approve` matches no action.", "Correct the pattern."),
    "unknown_model": Explained(
        "The request names a model that is not configured.", "Name a model that is configured, or name none."
    ),
    "price_unknown": Explained(
        "The request has a money budget, and a model in use has no price.",
        "Set its price, or ask without that budget; a workflow's budget applies to all its rounds.",
    ),
    "web_unavailable": Explained("The web is not reachable from here.", "Ask for something that needs no web."),
    # --- why the web was not searched
    "search_busy": Explained("The search engine receives too many requests.", "Ask again later, or for less at once."),
    "search_failed": Explained("The search engine is unreachable or has a problem.", _AGAIN),
    "search_misconfigured": Explained("The settings of the search engine are invalid.", "Correct its setting or key."),
    "search_quota": Explained("The account at the search engine has reached its limit.", "Raise the limit."),
    "search_timeout": Explained("The search engine did not answer in time.", _AGAIN),
    "search_unauthorized": Explained("The search engine denies access.", "Set a key that is valid for it."),
    "search_unavailable": Explained("No search engine is configured.", "Configure one, or attach documents."),
    "document_missing": Explained(
        "A document is not in the content store.",
        "If it was erased, work without it; if it was lost, restore its content from a copy, or attach it again.",
    ),
    "unknown_workflow": Explained("The workflow does not exist.", "Check the workflow's id."),
    "unknown_seq": Explained(
        "The workflow has no accepted event with this number.", "Name an accepted event; the detail names the nearest."
    ),
    "no_such_round": Explained("The workflow has no such round.", "Name its last round."),
    "round_open": Explained("A round of the workflow is still running.", "Wait for its end, or cancel it."),
    "round_ended": Explained("The round has ended, or another one followed it.", "Name the workflow's last round."),
    "nothing_to_approve": Explained("The step is not waiting for an approval.", "Check what needs approval now."),
    "already_approved": Explained("Someone already approved it.", "Nothing: the first answer counts."),
    "already_denied": Explained("Someone already denied it.", "Nothing: the first answer counts."),
    "already_paused": Explained("The round is paused already.", "Nothing, or resume it."),
    "paused": Explained("The round was paused before the action began.", "Resume it: then the action begins."),
    "not_paused": Explained("The round is not paused.", "Nothing: it goes on by itself."),
    "other_parameters": Explained(
        "The answer is for other parameters than those that the step waits with.", "Check the parameters again."
    ),
    "answer_superseded": Explained(
        "The answer to the request had no effect: an event of another writer, such as a forged opening, came first.",
        "Check who may write events; ask again under another id.",
    ),
    "approval_overdue": Explained("The approval has expired.", "Ask again and answer in time."),
    "not_an_approver": Explained(
        "The policy of the round does not let this actor answer.", "Let a member of the groups that it names answer."
    ),
    "own_request": Explained(
        "The actor who requested the round may not approve this.", "Let someone else who may approve it answer."
    ),
    "own_proposal": Explained(
        "The actor who changed the parameters may not approve them.", "Let another approver answer."
    ),
    "answered_already": Explained(
        "This actor has approved it already, and more people have to.", "Let another approver answer."
    ),
    "too_many_waiting": Explained(
        "The quota of this actor or source is used up, and too many requests are waiting already.",
        "Ask again later; the detail says when there is room.",
    ),
    # --- why content was not erased, or what its erasure prevents
    "content_erased": Explained("The content of the workflow was erased.", "Start a new workflow."),
    "nothing_to_erase": Explained("This content was erased already.", _NOTHING),
    "on_hold": Explained("The content is on legal hold.", "Release the hold first."),
    "retention_not_over": Explained("The content must be kept for longer.", "Wait until the date in the detail."),
    "no_such_hold": Explained("The workflow is not on this legal hold.", "Name a hold that it is on."),
    "unknown_document": Explained("The workflow has no such document.", "Check the ids of its documents."),
    # --- why a policy was not applied
    "policy_invalid": Explained("The policy contradicts itself, or no one could replace it.", "Correct the policy."),
    "policy_changed": Explained(
        "The current policy is not the one that this was meant to replace.",
        "Compare it with the current one and apply it again.",
    ),
    "policy_applies_already": Explained("The policy applies already.", _NOTHING),
    "no_policy": Explained("No policy was applied yet.", "Apply one."),
    "not_permitted": Explained(
        "The current policy does not let this actor apply a policy.", "Let a member of the groups in `apply` do it."
    ),
}
"""Every code that this release writes; `docs/events.md` lists them in a table."""
