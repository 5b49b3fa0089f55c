"""Advice for users of the command line, worded from the code and facts of an error.

Code below this package names no command or option, since each front end has its own; settings are common to all.
"""

from typing import Final, assert_never

from poweron_events.codes import CODES
from poweron_services.cli.output import utc
from poweron_services.client.client_errors import (
    AskedFor,
    ClientError,
    LastAnswer,
    NewerRelease,
    NotAWorkflowId,
    NothingToApprove,
    NothingToEdit,
    NotServed,
    RoundEnded,
    RoundOpen,
    RoundOverdue,
    RowsBehind,
    UnknownSeq,
    UnknownWorkflow,
    WorkflowPending,
)
from poweron_services.settings.config import KEY_VARIABLES, PLACE_VARIABLES

WHERE: Final = (
    "POWERON_KAFKA and POWERON_POSTGRES say where they are; without these settings PowerOn starts both on this machine."
)
UNAVAILABLE: Final = f"`poweron status` shows which server answers. {WHERE}"
"""Advice for when a server is, or may be, unavailable."""
LOG_LOST: Final = (
    "PowerOn appends nothing until the topic is restored from a copy, which it notices by itself, or until you run "
    "`poweron recover`, which first shows what would be lost. "
    "If POWERON_KAFKA, POWERON_KAFKA_PREFIX and POWERON_POSTGRES do not belong together, correct them instead."
)
"""Advice for when the log misses events that the rows were built from."""


def advice(error: ClientError) -> str:  # noqa: PLR0911 - one case per code
    """Return the advice about an error, in whole sentences that follow its message."""
    match error:
        case NotAWorkflowId():
            return "`poweron workflows` lists them."
        case UnknownWorkflow():
            return "`poweron workflows` lists all workflows."
        case WorkflowPending():
            return _pending(error)
        case RoundOpen():
            return _open_round(error)
        case RoundEnded():
            return f"`poweron history {error.workflow_id}` shows the outcome."
        case NothingToApprove():
            return f"{_became(error.last)}`poweron approvals` lists all pending approvals."
        case UnknownSeq() | NothingToEdit():
            return f"`poweron events {error.workflow_id}` lists them."
        case NewerRelease():
            return "Install that release, or a later one; `poweron --version` shows the installed one."
        case RowsBehind():
            return f"`poweron events {error.workflow_id}` updates them and shows it. {UNAVAILABLE}"
        case NotServed():
            return f"As soon as a `poweron serve` runs on these servers, {_service(error.asked, error.workflow_id)}."
        case RoundOverdue():
            return "As soon as a `poweron serve` runs on these servers, it does."
        case _:
            assert_never(error)


def untaken(asked: AskedFor) -> str:
    """Return the advice about something that no process has picked up yet."""
    start = "Start `poweron serve` on these servers, if none runs there."
    return f"{start} Ctrl-C stops waiting; the {asked} remains in the log."


def _pending(error: WorkflowPending) -> str:
    id_, request = error.workflow_id, error.request
    if request is None:
        return "Repeat the command."
    start = "" if request.is_served else "Start `poweron serve` on these servers: it does the work. "
    watch = f"`poweron watch {id_}` waits for it, " if error.round == 1 else ""
    return f"{start}{watch}`poweron cancel {id_}` cancels it."


def _open_round(error: RoundOpen) -> str:
    id_ = error.workflow_id
    answers = f"It waits for an approval, which `poweron approve {id_}` and `poweron deny {id_}` answer. "
    return (
        f"{answers if error.waits_for_approval else ''}"
        f"`poweron watch {id_}` follows it to its end, `poweron cancel {id_}` cancels it; then ask again."
    )


def _service(asked: AskedFor, id_: str) -> str:
    """Say what a service will do once one runs, and how to see it."""
    match asked:
        case "request":
            return f"it does the work, and `poweron watch {id_}` shows it"
        case "cancellation":
            return f"it cancels the round, and `poweron watch {id_}` shows it"
        case "answer" | "pause" | "resumption":
            return f"it judges the {asked}, and `poweron watch {id_}` shows the outcome"
        case "export" | "erasure" | "retention":
            return f"it records the {asked}, and `poweron events {id_}` shows it"
        case "policy":
            return "it judges the policy, and `poweron policy log` shows the outcome"


def _became(last: LastAnswer | None) -> str:
    """Say what became of the last action that waited for approval; empty if there was none."""
    if last is None:
        return ""
    round_, task, attempt, number = last.place
    step = f"Step {number} of task {task} in round {round_}{'' if attempt == 1 else f', attempt {attempt},'}"
    when = f"{utc(last.time)} (UTC)"
    if last.approver is None:
        return f"{step} expired at {when}, which counts as denied. "
    return f"{step} was {last.status} by {last.approver} at {when}. "


# --- by code --------------------------------------------------------------------------------------

_WORKS: Final = "`poweron models check` says whether the model works"
_CHECK_MODEL: Final = f"{_WORKS}; ask again once it does."
_ENDING_WITH_V1: Final = frozenset({"openai", "openai-responses", "ollama"})  # usual for these providers
_CHECK_SEARCH: Final = "`poweron search check` says whether the search engine works; ask again once it does."
_ENGINES: Final = "`tavily`, `brave`, `searxng:URL` or `folder:PATH`"
_LARGER: Final = "Ask again with a larger budget"

_ADVICE: Final[dict[str, str]] = {
    "step_limit": "Ask again with more steps (`--max-steps`).",
    "token_budget": f"{_LARGER} (`--max-tokens`; `--max-workflow-tokens` if it is the workflow's).",
    "cost_budget": f"{_LARGER} (`--max-cost`; `--max-workflow-cost` if it is the workflow's).",
    "price_unknown": "Set POWERON_MODEL_PRICE=MODEL=PROMPT,ANSWER (dollars for a million tokens; 0,0 if it costs "
    "nothing), or POWERON_UNPRICED_MODELS=allow to count it as free.",
    "answers_rejected": f"POWERON_MODEL_OUTPUT=prompted or a larger model may help. {_CHECK_MODEL}",
    "answer_unreadable": "POWERON_MODEL_OUTPUT=prompted or a larger model may help.",
    "answer_empty": "POWERON_MODEL_OUTPUT=prompted or a larger model may help.",
    "answer_cut_off": "A larger POWERON_MODEL_MAX_TOKENS or a larger budget leaves more room.",
    "model_unavailable": _CHECK_MODEL,
    "model_busy": _CHECK_MODEL,
    "model_timeout": f"POWERON_MODEL_TIMEOUT says how long it may take. {_CHECK_MODEL}",
    "model_access_denied": f"Set the key of its provider to a valid one. {_CHECK_MODEL}",
    "model_unknown": f"Set POWERON_MODEL to a model that its provider has. {_CHECK_MODEL}",
    "model_quota_exceeded": "Top the account up, or set POWERON_MODEL to a model elsewhere.",
    "answer_limit_too_large": "Set POWERON_MODEL_MAX_TOKENS to what it accepts.",
    "model_refused": _CHECK_MODEL,
    "model_misconfigured": f"Check that its address and POWERON_MODEL_OUTPUT are right. {_CHECK_MODEL}",
    "prompt_too_long": "Attach less, lower POWERON_MODEL_MAX_TOKENS, or use a model that accepts more.",
    "content_lost": "POWERON_CONTENT says where it is; restore it from a copy. `poweron verify` names what is missing.",
    "rows_differ": "PowerOn shows none of them. `poweron verify` names every difference, `poweron rebuild` replaces "
    "all rows with what the log says.",
    "rows_missing": "`poweron rebuild` rebuilds them from the log.",
    "content_store_unavailable": "Check that PowerOn can reach the content store (POWERON_CONTENT); "
    "ask again once it can.",
    "action_not_allowed": "POWERON_DENY and POWERON_ALLOW_LOOKUP, _ANALYSIS, _REPORT, _TRANSFORM say what may be used.",
    "address_unknown": "Name the address in the request: `poweron history` shows the addresses in the results.",
    "address_refused": "Name another page. POWERON_WEB_ALLOW, POWERON_WEB_DENY and POWERON_WEB_PORTS say what may be "
    "read, POWERON_WEB_PRIVATE_HOSTS which hosts of a private network; the log says which rule it was.",
    "page_timeout": "Ask again later, for another page, or set POWERON_WEB_TIMEOUT to more seconds.",
    "page_too_large": "Name a smaller page, or set POWERON_WEB_MAX_BYTES to more.",
    "search_busy": _CHECK_SEARCH,
    "search_failed": _CHECK_SEARCH,
    "search_misconfigured": _CHECK_SEARCH,
    "search_quota": "Raise the limit of the account at the engine, or set POWERON_SEARCH to another one.",
    "search_timeout": f"POWERON_WEB_TIMEOUT says how long it may take. {_CHECK_SEARCH}",
    "search_unauthorized": f"Set the key of the engine to a valid one. {_CHECK_SEARCH}",
    "search_unavailable": f"Set POWERON_SEARCH to a search engine ({_ENGINES}), or attach documents.",
    "unknown_connection": "POWERON_CONNECTIONS names the file that lists them; name one of these.",
    "unknown_model": "Set the key of its provider, or name a model that a setting names.",
    "tool_changed": "`poweron mcp check` shows what changed, `poweron mcp approve` approves it.",
    "tool_server_ended": "`poweron mcp check` says whether it can be started.",
    "tool_server_unavailable": "`poweron mcp check` says whether it can be used; POWERON_MCP says where it is.",
    "fork_needs_live": "The same `poweron fork` with `--live` runs the actions that have no recorded result.",
    "fork_never_runs": "`poweron ask` asks for it in a workflow of its own; a fork never runs it, `--live` or not.",
    "stage_timeout": f"{_WORKS}; ask again once it does, or for less at once.",
}


def advice_for(code: str | None) -> str:
    """Return the advice about a code, in one or two sentences."""
    if code is not None and code in _ADVICE:
        return _ADVICE[code]
    entry = CODES.get(code or "")
    return entry.remedy if entry else "Change the request or its documents and ask again."


def advice_for_model(code: str, provider: str) -> str:  # noqa: PLR0911 - one case per code
    """Return advice, beyond the error message, after a model of this provider failed to answer; may be empty."""
    key, place = KEY_VARIABLES.get(provider, ""), PLACE_VARIABLES.get(provider, "")
    match code:
        case "model_access_denied":
            return f"Set {key} to a key that is valid and may use the model."
        case "model_unknown":
            return f"Set POWERON_MODEL to a model that it has, and {place} to where it is."
        case "model_unavailable":
            return f"{place} says where it is."
        case "model_misconfigured":
            ending = f"Does {place} end with `/v1`?" if provider in _ENDING_WITH_V1 else f"Is {place} right?"
            return f"{ending} POWERON_MODEL_OUTPUT says how the model learns the form of an answer."
        case "model_timeout":
            return "POWERON_MODEL_TIMEOUT says how long it may take."
        case "model_quota_exceeded":
            return "Top it up, or set POWERON_MODEL to a model elsewhere."
    text = _ADVICE.get(code, "")
    return "" if text == _CHECK_MODEL else text


_SEARCH_ADVICE: Final[dict[str, str]] = {
    "search_busy": "Wait a minute, or have the limits of the account raised.",
    "search_failed": "Check that this machine can reach it; its status page, or its own log, may say more.",
    "search_misconfigured": "",
    "search_timeout": "POWERON_WEB_TIMEOUT says how long it may take.",
}
_KEY_OF_ENGINE: Final = "Set {} to a key that is valid and may search."
_LET_IN: Final[dict[str | None, str]] = {
    "brave": _KEY_OF_ENGINE.format("BRAVE_API_KEY"),
    "searxng": "Add `json` to the `formats` below `search` in its settings.yml.",
    "tavily": _KEY_OF_ENGINE.format("TAVILY_API_KEY"),
}


def advice_for_search(code: str, engine: str | None) -> str:
    """Return advice after this search engine failed to answer; empty if the error message already gives it."""
    if code == "search_unauthorized" and engine in _LET_IN:
        return _LET_IN[engine]
    return _SEARCH_ADVICE[code] if code in _SEARCH_ADVICE else advice_for(code)
