"""The codes that say why something stopped, failed or was rejected, for programs that branch on them or count them.

An event gives each reason twice: as a sentence for people, which may change with every release, and as a code,
which does not. The vocabulary is open: a newer release, or an action from outside this package, may write a code
that is not listed here. Events of release 0.2 or older have no codes.
"""

from typing import Annotated, Final, Literal, NamedTuple

from pydantic import Field

Code = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=64)]
"""A code on the wire: lower-case words joined by underscores."""

BudgetCode = Literal["token_budget", "cost_budget", "time_budget", "step_budget", "retry_budget"]
"""The budget of the task or of the workflow that is used up."""

GuardCode = Literal[BudgetCode, "cancelled", "deadline", "criteria_met", "no_improvement", "step_limit", "retry_limit"]
"""Why the rules in code stop the loop."""

StopCode = Literal[GuardCode, "answers_rejected", "judged_by_model", "plan_done", "plan_failed"]
"""Why an attempt stopped, or why its review gave this status."""

ForkStopCode = Literal["fork_needs_live", "fork_never_runs"]
"""Why a fork ends before its work is done: no recorded result is left, and the next action is not run."""

RefusalCode = Literal[
    "already_approved",
    "already_denied",
    "answer_superseded",
    "approval_overdue",
    "document_missing",
    "invalid_request",
    "unknown_seq",
    "no_such_round",
    "nothing_to_approve",
    "other_parameters",
    "pattern_meaningless",
    "price_unknown",
    "request_too_large",
    "round_ended",
    "round_open",
    "unknown_connection",
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
"""Trouble of the service rather than of the work. The sentences beside these codes are for people and may name
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


_AS_IT_SHOULD: Final = "Nothing: this is how work ends as it should."
_LARGER_BUDGET: Final = "Ask again with a larger budget, or for less."
_CHANGE: Final = "Change the request or its documents and ask again."
_MODEL_TRIES: Final = "Nothing for the first one: the model is asked once more. If it happens often, use another model."
_AGAIN: Final = "Ask again later; the log of the service says more."

CODES: Final[dict[str, Explained]] = {
    # --- why an attempt, a task or a round stopped
    "criteria_met": Explained("All success criteria are met.", _AS_IT_SHOULD),
    "no_improvement": Explained("No further action can improve the result.", _AS_IT_SHOULD),
    "judged_by_model": Explained("The model's review decided it.", "Read the reason beside the code."),
    "plan_done": Explained("All planned actions are done (mode Actionplan).", _AS_IT_SHOULD),
    "plan_failed": Explained("A planned action failed; those after it were not tried (mode Actionplan).", _CHANGE),
    "step_limit": Explained("The attempt took all its steps.", "Ask again with more steps (`maxSteps`)."),
    "retry_limit": Explained("The task was tried again as often as it may be (`maxRetries`).", _CHANGE),
    "token_budget": Explained("A budget of tokens is used up, or might not hold the next call.", _LARGER_BUDGET),
    "cost_budget": Explained("A budget of money is used up, or might not hold the next call.", _LARGER_BUDGET),
    "time_budget": Explained("A task's budget of time is used up.", _LARGER_BUDGET),
    "step_budget": Explained("The workflow's budget of steps is used up.", _LARGER_BUDGET),
    "retry_budget": Explained("The workflow's budget of retries is used up.", _LARGER_BUDGET),
    "fork_needs_live": Explained(
        "A fork came to an action that the workflow it was forked from has no result of, and it runs none.",
        "Fork again and allow that actions are run.",
    ),
    "fork_never_runs": Explained(
        "A fork came to an action whose effect must not happen twice, and of which there is no result.",
        "Ask for it in a request of its own.",
    ),
    "cancelled": Explained("Somebody cancelled the round.", "Nothing; the workflow can be followed up on."),
    "deadline": Explained("The time of the round is over (`deadlineMs`).", "Ask again for less at once."),
    "answers_rejected": Explained(
        "The answers of the model could not be used, twice in a row.", "Use another model, or ask in other words."
    ),
    # --- why an answer of a model was rejected
    "answer_echoed": Explained("The answer only repeats how it was asked for.", _MODEL_TRIES),
    "answer_unreadable": Explained("The answer is not the JSON that was asked for.", _MODEL_TRIES),
    "answer_refused": Explained("The model, or a filter of its provider, would not answer.", "Use other words."),
    "answer_cut_off": Explained("The answer reached its limit of tokens.", "Allow longer answers, or a larger budget."),
    "answer_empty": Explained("The model answered with nothing.", _MODEL_TRIES),
    "answer_too_large": Explained("The answer does not fit into an event.", _MODEL_TRIES),
    "action_not_allowed": Explained(
        "There is no such action, or this task may not use it.", "Look at `allowedMethods` and `deniedMethods`."
    ),
    "field_not_allowed": Explained("The schema of the parameters holds a field that it must not hold.", _MODEL_TRIES),
    "documents_missing": Explained("The action works on documents, and none was named.", _MODEL_TRIES),
    "address_unknown": Explained(
        "An address of the web was named that neither the request nor a result gave.",
        "Name it in the request, or hand over a document that holds it.",
    ),
    "path_unknown": Explained(
        "A path was named that neither the request, nor a result of the same server, nor the settings gave.",
        "Name it in the request, or the folder that it is in.",
    ),
    "unknown_reference": Explained("A reference names no document of the workflow.", _MODEL_TRIES),
    "connection_missing": Explained("The action works on a connection, and none was named.", _MODEL_TRIES),
    "unknown_connection": Explained(
        "The connection did not come with the request, or is not configured.",
        "Name one in `connections` that is configured.",
    ),
    "connection_unusable": Explained(
        "The connection is not configured where the action runs, or a secret of it cannot be read.",
        "Correct the settings of the connection; the detail says what is missing.",
    ),
    "plan_too_long": Explained("The plan has more actions than the task may take steps.", _MODEL_TRIES),
    "parameter_missing": Explained("A required parameter was not given.", _MODEL_TRIES),
    "parameter_invalid": Explained("A parameter has a value that the action does not take.", _MODEL_TRIES),
    # --- why a stage, or a model within an action, could not do its work
    "model_unavailable": Explained("The model cannot be reached, or has trouble of its own.", _AGAIN),
    "model_busy": Explained("The model is asked too often.", "Ask again later, or ask for less at once."),
    "model_timeout": Explained("The model did not answer in time.", "Ask again later, or allow it more time."),
    "model_access_denied": Explained("The provider does not let us in.", "Set a key that is valid for this model."),
    "model_unknown": Explained("The provider has no such model.", "Set the model's name and its provider's address."),
    "model_quota_exceeded": Explained("The account at the provider has used up what it may spend.", "Raise its limit."),
    "answer_limit_too_large": Explained(
        "The model does not write as much at once as it was asked for.", "Lower the limit of its answers."
    ),
    "model_refused": Explained("The provider refused the request.", "Read what it says, beside the code."),
    "model_misconfigured": Explained("The model cannot be asked as it is set up.", "Correct the model's settings."),
    "prompt_too_long": Explained(
        "The prompt is longer than what the model takes.", "Hand over less, or use a model that takes more."
    ),
    "content_store_unavailable": Explained(
        "The content store did not answer.", "See that it can be reached; ask again once it can."
    ),
    "stage_timeout": Explained("The stage was not done within its time (`stageTimeoutMs`).", _AGAIN),
    "unavailable": Explained("Something that the work needs could not be reached.", _AGAIN),
    "event_too_large": Explained("What was to be said does not fit into an event.", _CHANGE),
    "event_unwritable": Explained("What was to be said holds text that is not Unicode.", _CHANGE),
    "refused": Explained("The work was refused, for the reason beside the code.", _CHANGE),
    "content_lost": Explained(
        "The content store holds nothing that recent events refer to.", "Restore it from a copy, or correct its place."
    ),
    "rows_differ": Explained(
        "Rows in Postgres are not what the log says.", "Compare all rows with the log, and rebuild them from it."
    ),
    "rows_missing": Explained("The log holds a workflow whose rows are missing.", "Rebuild the rows from the log."),
    "unexpected_error": Explained(
        "The service met an error that it did not expect.", "Look into the log of the service."
    ),
    # --- why an action has no result
    "approval_denied": Explained("A person denied the action.", "Ask again once the action may be approved."),
    "approval_expired": Explained("Nobody approved the action in time.", "Ask again and have it approved in time."),
    "approval_missing": Explained("The action has to be approved, and nobody was asked.", _AGAIN),
    "action_failed": Explained("The action could not do its work, for the reason beside the code.", _CHANGE),
    "action_timeout": Explained("The action was stopped at its time limit.", "Ask again for less at once."),
    "claim_lost": Explained(
        "The worker lost its claim before the action began.", "Nothing: the loop goes on without it."
    ),
    "worker_stopped": Explained("The worker stopped before the action ended.", "See that the processes stay alive."),
    "round_stopped": Explained("The round was stopped before the action ended.", "Nothing; see why the round stopped."),
    "result_not_stored": Explained(
        "The action ended, but its result could not be stored.", "See that the content store can be reached."
    ),
    "nothing_to_read": Explained("There is no document to work on.", "Hand over a document."),
    "documents_unreadable": Explained(
        "None of the documents could be read.", "See the reason of each, and hand them over again."
    ),
    "output_invalid": Explained(
        "What the model wrote is not in the format that was asked for.", "Use another model, or ask for another format."
    ),
    "tool_changed": Explained(
        "What a server says of its tool is not what was approved, so that it was not called.",
        "Look at what changed, and approve it.",
    ),
    "tool_failed": Explained(
        "The tool of a server answered that it failed, or with nothing that can be read.",
        "Read what it says in its document, and ask for something else.",
    ),
    "tool_result_too_large": Explained(
        "The tool of a server sent more at once than is read.", "Ask it for less at once."
    ),
    "tool_server_ended": Explained(
        "The server of a tool ended, or its connection did, before it answered.", "See why that server ends."
    ),
    "tool_server_unavailable": Explained(
        "The server of a tool cannot be started or reached.", "See that it can be started and reached."
    ),
    "nothing_found": Explained("The search found no page.", "Ask in other words."),
    # --- why a document was not read
    "document_damaged": Explained("The document is damaged.", "Check it and hand it over again."),
    "document_empty": Explained("The document is empty.", "Check that it was saved and handed over completely."),
    "document_format_unknown": Explained(
        "Documents of this kind cannot be read.", "Save it in one of the formats that can be read."
    ),
    "document_protected": Explained("The document is protected by a password.", "Save it without the password."),
    "document_timeout": Explained("The document could not be read in time.", "Hand over a smaller part of it."),
    "document_too_large": Explained("The document is larger than what can be read.", "Hand over a smaller part of it."),
    "document_unsafe": Explained(
        "The document was not opened, since opening it could do harm.",
        "Open it in its own program and save it as a new file.",
    ),
    "document_without_text": Explained(
        "The document holds no text that can be read.", "Hand over a version with text."
    ),
    "partly_read": Explained(
        "A part of the document was not read.", "Hand over what was left out as a document of its own."
    ),
    # --- why a page of the web was not read
    "address_refused": Explained(
        "The address is none of a public page, or the settings do not let it be read.",
        "Name another page, or have its host allowed.",
    ),
    "page_unavailable": Explained("There is no such page now, or its server cannot be reached.", "Name another page."),
    "page_timeout": Explained("The page did not come in time.", "Ask again later, or for another page."),
    "page_too_large": Explained("The page is larger than what is read.", "Name a page that is smaller."),
    "page_needs_consent": Explained("The page asks for a consent before it shows its text.", "Hand over its text."),
    "page_needs_javascript": Explained(
        "The page shows its text only in a browser that runs its scripts.", "Hand over its text."
    ),
    "page_needs_login": Explained("The page is shown only to those who have signed in.", "Hand over its text."),
    "robots_disallowed": Explained(
        "The rules of the host for robots do not allow it.", "Read the page yourself and hand over its text."
    ),
    # --- why a file was not handed over
    "file_missing": Explained("There is no such file.", "Check its path."),
    "file_not_allowed": Explained(
        "The file is not below a folder that was allowed, or is a link, hidden or too large.",
        "Allow its folder, or hand over its text.",
    ),
    # --- why a request was refused
    "invalid_request": Explained(
        "The request does not have the form that it must have.", "Correct what the detail names."
    ),
    "request_too_large": Explained("The request does not fit into an event.", "Shorten the prompt."),
    "pattern_meaningless": Explained("A pattern in `approve` means no action.", "Correct the pattern."),
    "price_unknown": Explained(
        "There is a budget of money, and a model in use has no price.",
        "Set its price, or ask without that budget; one of the workflow holds for all its rounds.",
    ),
    "web_unavailable": Explained("The web cannot be reached from here.", "Ask for something that needs no web."),
    # --- why the web was not searched
    "search_busy": Explained("The search engine is asked too often.", "Ask again later, or for less at once."),
    "search_failed": Explained("The search engine cannot be reached, or has trouble of its own.", _AGAIN),
    "search_misconfigured": Explained(
        "The search engine cannot be used as it is set up.", "Correct its setting, or its key."
    ),
    "search_quota": Explained("The account at the search engine has used up what it may search.", "Raise its limit."),
    "search_timeout": Explained("The search engine did not answer in time.", _AGAIN),
    "search_unauthorized": Explained("The search engine does not let us in.", "Set a key that is valid for it."),
    "search_unavailable": Explained("There is no search engine.", "Set one, or hand over documents."),
    "document_missing": Explained(
        "A document is not in the content store.", "Bring its content back from a copy, or hand it over again."
    ),
    "unknown_workflow": Explained("There is no such workflow.", "Check the workflow's id."),
    "unknown_seq": Explained(
        "The workflow has no accepted event there, so that nothing can be forked from it.", "Name an accepted event."
    ),
    "no_such_round": Explained("The workflow has no such round.", "Name its last round."),
    "round_open": Explained("A round of the workflow still runs.", "Wait for its end, or cancel it."),
    "round_ended": Explained("The round has ended, or was followed by another one.", "Name the workflow's last round."),
    "nothing_to_approve": Explained("The step waits for no approval.", "Look at what waits for an approval now."),
    "already_approved": Explained("Somebody approved it already.", "Nothing: the first answer holds."),
    "already_denied": Explained("Somebody denied it already.", "Nothing: the first answer holds."),
    "other_parameters": Explained(
        "The step waits with other parameters than those that were answered.", "Look at them again."
    ),
    "answer_superseded": Explained(
        "The answer to the request had no effect: an event of another writer took its place, such as a forged opening.",
        "See who may write events; ask again under another id.",
    ),
    "approval_overdue": Explained("The time in which it could be approved is over.", "Ask again and answer in time."),
}
"""Every code that this release writes; `docs/events.md` lists them in a table."""
