"""The events of log lines: the codes that operators count and alert on, while the words around them may change.

Each of PowerOn's own log lines has one of these codes in `event`; a library's line has the library's text there.
A test compares this table with every place that logs.
"""

from typing import Final, Literal, NamedTuple

STAGE_WAITS: Final = "stage_waits"
"""Logged each time a stage cannot be done now; `workflow_id`, `stage`, `code` and `error` have the details."""

MODEL_WAITS: Final = "model_waits"
"""Logged each time a request to a model has failed and may be retried.

`tries` is the number of tries in this call, `seconds` the time until the next one; None if there is none.
"""

MODEL_PASSED_OVER: Final = "model_passed_over"
"""Logged when a model cannot be reached and the next one is asked at once."""

OUTAGES: Final = frozenset({"disk_full", "server_outage"})
"""Logged by all work that waits for a server which an operator must fix; each event passes once a minute."""

Milestone = Literal["iteration_ended", "task_ended", "round_ended"]


class LogEvent(NamedTuple):
    """The meaning of a log line with this event, for an operator."""

    levels: str
    """The levels at which it is logged, in alphabetical order, separated by commas."""
    meaning: str
    remedy: str
    """What the operator should do about it."""


_NOTHING: Final = "Nothing."
_MENDED: Final = "Nothing where it is rare: it is tried again by itself. Where it goes on, mend what `error` says."
_REPORT: Final = "Report it, with the line: its `exception` shows where."

LOG_EVENTS: Final[dict[str, LogEvent]] = {
    "action_error": LogEvent("error", "An action met an unexpected error; the step goes on without a result.", _REPORT),
    "action_left_out": LogEvent(
        "warning",
        "An action of another package, or a tool of a server, cannot be used and is left out; `error` says why.",
        "Mend what `source` names, or remove it.",
    ),
    "answer_rejected": LogEvent(
        "info",
        "What a model answered could not be used, or broke a rule; `code` is one of the codes of the events.",
        "Nothing where it is rare. `address_unknown`: a model named an address that nobody gave it; see what it read.",
    ),
    "append_retried": LogEvent("warning", "Kafka did not take an event; it is appended again.", _MENDED),
    "background_task_error": LogEvent(
        "error", "Work beside the main work, or of a library, ended with an unexpected error.", _REPORT
    ),
    "bi_role_missing": LogEvent(
        "warning",
        "The role that is to read the views of `bi` is not in Postgres; nobody was given anything.",
        "Make it with `CREATE ROLE`, then start the process that plays the projector again.",
    ),
    "cancellation_postponed": LogEvent(
        "warning", "A cancellation could not be answered ahead of its turn; it is answered in it.", _NOTHING
    ),
    "command_error": LogEvent("error", "A command met an unexpected error.", _REPORT),
    "connection_lost": LogEvent(
        "info", "A connection to a server ended while nobody waited for it; the library connects again.", _NOTHING
    ),
    "content_store_unavailable": LogEvent(
        "warning", "An action waits for the content store.", "See that the content store can be reached."
    ),
    "disk_full": LogEvent(
        "error",
        "Kafka, Postgres or the content store has no room left; what needs it waits. It comes once a minute.",
        "Make room on the disk that `error` names, and start the server again if it has ended. The work then goes on "
        "by itself; never delete files of Kafka or Postgres.",
    ),
    "document_rights_kept": LogEvent(
        "warning",
        "The processes that read documents cannot give up all their rights on this system; `rights` says which.",
        "See what that means in `docs/security.md`.",
    ),
    "embedded_server_error": LogEvent(
        "error",
        "Kafka or Postgres of this machine has ended and cannot be started again, perhaps because the disk is full.",
        "Do what `error` says; it is tried again by itself.",
    ),
    "embedded_servers": LogEvent("info", "What the servers of this machine do: start, stop.", _NOTHING),
    "ending_waits": LogEvent("warning", "The end of a round could not be written yet.", _MENDED),
    "event_without_effect": LogEvent(
        "error",
        "An event of this process was superseded where that cannot be; it is tried up to three times.",
        "See that all processes are of one release, and who else may write events.",
    ),
    "fault_retried": LogEvent("debug", "`poweron chaos` injects a fault again that another fault met.", _NOTHING),
    "iteration_ended": LogEvent("info", "A step of a task ended, with decision, tokens, cost and duration.", _NOTHING),
    "kafka_unavailable": LogEvent(
        "warning", "Kafka does not answer; it is polled again, and nothing is lost.", "See that Kafka can be reached."
    ),
    "loading_error": LogEvent("error", "Open workflows could not be loaded, for an unexpected error.", _REPORT),
    "loading_retried": LogEvent(
        "info, warning",
        "Open workflows of `partitions` wait for Postgres or its projector; at a start that is usual.",
        "See that Postgres can be reached and that a process plays the projector.",
    ),
    "log_lost": LogEvent(
        "error",
        "Events that were in `poweron.events` are not there any more: all roles have stopped and append nothing.",
        "Restore the topic from a copy, and they go on by themselves; or `poweron recover`, which tells first what is "
        "lost.",
    ),
    "model_answered": LogEvent("debug", "A model answered, with tokens, cost and duration.", _NOTHING),
    MODEL_PASSED_OVER: LogEvent(
        "warning",
        "A model could not be reached: `next_model` is asked in its place, as POWERON_MODEL says.",
        "Nothing where it is rare; else mend what `error` says.",
    ),
    MODEL_WAITS: LogEvent(
        "warning",
        "A request to a model failed, for the first or the `tries`th time in one call; in `seconds` it is made again.",
        "Nothing where it is rare. Where it goes on, mend what `error` says; `code` is one of the codes of the events.",
    ),
    "no_final_message": LogEvent(
        "error, warning",
        "The model wrote no final message; the results stand in its place.",
        "See `error`; with `exception` it was unexpected: report it.",
    ),
    "progress_lost": LogEvent(
        "info", "How far an action is could not be told to whoever watches; the work goes on.", _NOTHING
    ),
    "projection_retried": LogEvent(
        "warning", "Events could not be written as rows yet.", "See that Postgres can be reached."
    ),
    "request_answered": LogEvent("info", "Intake accepted or refused a request; `answer` is the event.", _NOTHING),
    "request_dead_lettered": LogEvent(
        "warning", "A request could not be read and was kept aside.", "`poweron deadletters` says what was wrong."
    ),
    "request_error": LogEvent(
        "error", "A request met an unexpected error; it is tried a few times, then kept as a dead letter.", _REPORT
    ),
    "request_waits": LogEvent("warning", "A request could not be answered yet.", _MENDED),
    "result_held_secret": LogEvent(
        "error",
        "The result of an action held a secret where nothing else can stand, such as an address; it was not kept.",
        "See why the action tells it.",
    ),
    "result_not_stored": LogEvent(
        "error", "An action ended, but its result could not be stored.", "See that the content store can be reached."
    ),
    "round_ended": LogEvent("info", "A round of a workflow ended; `ending` says how.", _NOTHING),
    "search_page_unreadable": LogEvent(
        "warning",
        "A page of the folder that is searched cannot be read; it is found by its name at most.",
        "Check the file that `name` names.",
    ),
    "server_unavailable": LogEvent(
        "warning", "A process starts and waits for Kafka or Postgres.", "See that the server in `error` can be reached."
    ),
    "page_refused": LogEvent(
        "warning",
        "A page of the web was not read; `detail` says which rule it was, where a rule forbids it.",
        "Where it should be read, change the setting that `detail` speaks of.",
    ),
    "server_outage": LogEvent(
        "error",
        "Kafka, Postgres, its projector or the content store has been unavailable for `seconds`, more than a minute. "
        "It comes once a minute.",
        "See what `error` says, start that server again, or see that the network reaches it. The work then goes on by "
        "itself.",
    ),
    "service_started": LogEvent("info", "A process plays `roles` and asks people for what `approve` marks.", _NOTHING),
    "setting_deprecated": LogEvent("warning", "A setting has another name now.", "Rename it as `advice` says."),
    "setting_unknown": LogEvent(
        "warning", "A variable of the environment looks like a setting and is none.", "Rename it as `advice` says."
    ),
    "shutdown_incomplete": LogEvent(
        "warning",
        "Not everything could be closed within `seconds` of SIGTERM or Ctrl-C, so the process ended without.",
        "Nothing is lost: other processes take over the work. See whether Kafka and Postgres answer.",
    ),
    "spans_dropped": LogEvent(
        "warning", "The collector of traces did not take the last spans in time.", "See that it can be reached."
    ),
    "stage_error": LogEvent("error", "A stage met an unexpected error; it fails, with an event.", _REPORT),
    STAGE_WAITS: LogEvent(
        "warning",
        "A stage cannot be done now: its model, the content store or a server does not answer.",
        "Mend what `error` says; `code` is one of the codes of the events.",
    ),
    "task_ended": LogEvent("info", "An attempt at a task ended; `status` says how.", _NOTHING),
    "tidying_error": LogEvent("error", "Ended workflows could not be forgotten, for an unexpected error.", _REPORT),
    "tidying_postponed": LogEvent("info", "Ended workflows could not be forgotten yet.", _NOTHING),
    "tool_server_ended": LogEvent(
        "info", "A server of tools ended; it is started again at the next call.", "Nothing where it is rare."
    ),
    "tool_server_unavailable": LogEvent(
        "warning",
        "A server of tools cannot be used, and its tools are not known yet: they are left out.",
        "`poweron mcp check` says more; then start this process again.",
    ),
    "topic_made_again": LogEvent(
        "error",
        "The topic `topic` was deleted while it was in use, and was made again; the roles go on with it.",
        "Find out who deletes topics. Requests that nobody had taken are lost: whoever waits for an answer sends the "
        "request again.",
    ),
    "weak_replication": LogEvent(
        "warning",
        "A topic is kept by several brokers, but one of them confirms an append alone: its loss may lose events.",
        "Give the topic three replicas and `min.insync.replicas=2`.",
    ),
    "work_retried": LogEvent("error", "Work on a workflow met an unexpected error and is tried again.", _REPORT),
    "workflow_stuck": LogEvent(
        "error",
        "Three events in a row had no effect on a workflow; nobody works on it any more. `poweron workflows` shows it.",
        "Report it. Somebody else may write events: see who may. A cancellation ends the round.",
    ),
}
