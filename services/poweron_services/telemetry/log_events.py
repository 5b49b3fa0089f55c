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
_RETRIED: Final = "Nothing if it is rare: PowerOn retries. If it continues, fix the cause in `error`."
_REPORT: Final = "Report it with the log line, whose `exception` shows where it happened."

LOG_EVENTS: Final[dict[str, LogEvent]] = {
    "action_error": LogEvent(
        "error", "An action met an unexpected error; the step continues without a result.", _REPORT
    ),
    "action_left_out": LogEvent(
        "warning",
        "PowerOn skips an action of another package, or a tool of a server, that cannot be used; `error` says why.",
        "Fix or remove what `source` names.",
    ),
    "answer_rejected": LogEvent(
        "info",
        "PowerOn rejected an unusable or forbidden answer of a model; `code` is one of the codes of the events.",
        "Nothing if it is rare. `address_unknown`: the model named an unknown address; check what it read.",
    ),
    "append_retried": LogEvent("warning", "Kafka did not accept an event; PowerOn appends it again.", _RETRIED),
    "background_task_error": LogEvent(
        "error", "A background task, or one of a library, ended with an unexpected error.", _REPORT
    ),
    "bi_role_missing": LogEvent(
        "warning",
        "The role that `POWERON_BI_ROLE` names does not exist in Postgres, so PowerOn granted it nothing.",
        "Create it with `CREATE ROLE`, then restart the process that plays the projector.",
    ),
    "cancellation_postponed": LogEvent(
        "warning", "PowerOn could not answer a cancellation ahead of its turn, and answers it in its turn.", _NOTHING
    ),
    "content_erased": LogEvent(
        "info", "Intake removed content of a workflow from the content store, as an event says.", _NOTHING
    ),
    "http_error": LogEvent("error", "A request over HTTP met an unexpected error.", _REPORT),
    "command_error": LogEvent("error", "A command met an unexpected error.", _REPORT),
    "connection_lost": LogEvent("info", "An idle connection to a server ended; the library connects again.", _NOTHING),
    "checkpoint_refused": LogEvent(
        "warning",
        "This witness refused a checkpoint that does not continue what it has cosigned, and keeps it as evidence.",
        "Ask the operator of the ledger. The file `.refused` in the folder of the witness has the signed checkpoint.",
    ),
    "content_store_unavailable": LogEvent(
        "warning", "An action waits for the content store.", "Make sure that the content store is reachable."
    ),
    "postgres_silent": LogEvent(
        "warning",
        "A query over HTTP was given up, since Postgres did not answer a probe in time either.",
        "Make sure that Postgres is reachable and not overloaded.",
    ),
    "dead_letter_redriven": LogEvent(
        "info",
        "An operator sent a request again that had become a dead letter; `edited` says whether as it was.",
        _NOTHING,
    ),
    "disk_full": LogEvent(
        "error",
        "The disk of Kafka, Postgres or the content store is full; work that needs it waits. Logged once a minute.",
        "Free space on the disk that `error` names, and restart the server if it has ended. The work then continues; "
        "never delete files of Kafka or Postgres.",
    ),
    "door_secret_in_memory": LogEvent(
        "warning",
        "The secret of a door cannot be read or kept in the data directory; `error` says why. Sessions and open forms "
        "of its pages end with the process.",
        "Let the door write POWERON_HOME, or delete the file that `error` names, and start the door again.",
    ),
    "document_rights_kept": LogEvent(
        "warning",
        "The processes that read documents cannot drop all their rights on this system; `rights` says which.",
        "Read in `docs/security.md` what that means.",
    ),
    "embedded_server_error": LogEvent(
        "error",
        "The embedded Kafka or Postgres ended and does not start again, perhaps because the disk is full.",
        "Do what `error` says; PowerOn keeps trying to start it.",
    ),
    "embedded_servers": LogEvent("info", "The embedded servers start or stop.", _NOTHING),
    "ending_waits": LogEvent("warning", "The end of a round could not be appended yet.", _RETRIED),
    "event_without_effect": LogEvent(
        "error",
        "An event of this process was superseded although nothing should precede it; PowerOn tries up to three times.",
        "Make sure that all processes run one release, and check who else may write events.",
    ),
    "fault_retried": LogEvent(
        "debug", "`poweron chaos` injects a fault again because another fault interfered.", _NOTHING
    ),
    "instance_not_recorded": LogEvent(
        "info, warning",
        "The log did not take the record of this process: its settings, actions and lists at its start.",
        "Nothing if servers are starting: PowerOn retries. Otherwise fix the cause in `error`.",
    ),
    "figures_refused": LogEvent(
        "warning",
        "Postgres or Kafka does not let this process read the figures of its metrics, which are missing.",
        "Grant what `error` names; the role of Postgres needs to read all tables of PowerOn.",
    ),
    "iteration_ended": LogEvent("info", "A step of a task ended, with decision, tokens, cost and duration.", _NOTHING),
    "kafka_unavailable": LogEvent(
        "warning",
        "Kafka does not answer; PowerOn polls it again, and nothing is lost.",
        "Make sure that Kafka is reachable.",
    ),
    "ledger_alarm": LogEvent(
        "error",
        "The ledger, its checkpoints or the log are not what was signed before. Nothing is signed; work goes on.",
        "Find out who changed what, and restore the topic from a copy. With another key, set `POWERON_LEDGER_KEY`.",
    ),
    "ledger_retried": LogEvent(
        "warning",
        "The ledger cannot go on, because Kafka or Postgres does not answer; it enters what is missing later.",
        "Make sure that both are reachable.",
    ),
    "loading_error": LogEvent("error", "Loading open workflows failed with an unexpected error.", _REPORT),
    "loading_retried": LogEvent(
        "info, warning",
        "Loading the open workflows of `partitions` waits for Postgres or its projector, as is usual at a start.",
        "Make sure that Postgres is reachable and that a process plays the projector.",
    ),
    "log_lost": LogEvent(
        "error",
        "Events that were in `poweron.events` are missing: all roles have stopped and append nothing.",
        "Restore the topic from a copy, and the roles continue; or run `poweron recover`, which first reports what is "
        "lost.",
    ),
    "model_answered": LogEvent("debug", "A model answered, with tokens, cost and duration.", _NOTHING),
    MODEL_PASSED_OVER: LogEvent(
        "warning",
        "A model was unreachable; PowerOn asks `next_model` instead, as POWERON_MODEL says.",
        "Nothing if it is rare; otherwise fix the cause in `error`.",
    ),
    MODEL_WAITS: LogEvent(
        "warning",
        "A request to a model failed for the `tries`th time in one call; PowerOn repeats it after `seconds`.",
        "Nothing if it is rare. If it continues, fix the cause in `error`; `code` is one of the codes of the events.",
    ),
    "no_final_message": LogEvent(
        "error, warning",
        "The model wrote no final message; the user receives the results instead.",
        "See `error`; if the line has an `exception`, report it.",
    ),
    "progress_lost": LogEvent("info", "The progress of an action could not be reported; the work continues.", _NOTHING),
    "projection_retried": LogEvent(
        "warning", "Events could not be written as rows yet.", "Make sure that Postgres is reachable."
    ),
    "request_answered": LogEvent("info", "Intake accepted or refused a request; `answer` is the event.", _NOTHING),
    "request_dead_lettered": LogEvent(
        "warning",
        "Intake could not read a request and kept it as a dead letter.",
        "`poweron deadletters` shows the reason.",
    ),
    "request_error": LogEvent(
        "error",
        "A request met an unexpected error; intake tries it a few times, then keeps it as a dead letter.",
        _REPORT,
    ),
    "quotas_not_read": LogEvent("warning", "Intake could not read how much of the quotas is used.", _RETRIED),
    "request_waits": LogEvent("warning", "Intake could not answer a request yet.", _RETRIED),
    "result_held_secret": LogEvent(
        "error",
        "PowerOn dropped the result of an action, which held a secret where it cannot be masked, as in an address.",
        "Find out why the action returns it.",
    ),
    "result_not_stored": LogEvent(
        "error",
        "An action ended, but its result could not be stored.",
        "Make sure that the content store is reachable.",
    ),
    "round_ended": LogEvent("info", "A round of a workflow ended; `ending` says how.", _NOTHING),
    "search_page_unreadable": LogEvent(
        "warning",
        "A page in the search folder cannot be read; a search finds it by its name at most.",
        "Check the file that `name` names.",
    ),
    "server_unavailable": LogEvent(
        "warning",
        "A process starts and waits for Kafka or Postgres.",
        "Make sure that the server in `error` is reachable.",
    ),
    "page_refused": LogEvent(
        "warning",
        "A web page was not read; if a rule forbids it, `detail` names the rule.",
        "If PowerOn should read it, change the setting that `detail` names.",
    ),
    "server_outage": LogEvent(
        "error",
        "Kafka, Postgres, its projector or the content store has been unavailable for `seconds`, more than a minute. "
        "Logged once a minute.",
        "Read `error`, and restart that server or repair the network. The work then continues.",
    ),
    "service_started": LogEvent(
        "info", "A process started to play `roles`; actions in `approve` need a person's approval.", _NOTHING
    ),
    "setting_deprecated": LogEvent("warning", "A setting has a new name.", "Rename it as `advice` says."),
    "setting_unknown": LogEvent(
        "warning", "An environment variable looks like a setting but is not one.", "Rename it as `advice` says."
    ),
    "shutdown_incomplete": LogEvent(
        "warning",
        "The process ended before it could close everything within `seconds` of SIGTERM or Ctrl-C.",
        "Nothing is lost: other processes take over the work. Check that Kafka and Postgres answer.",
    ),
    "spans_dropped": LogEvent(
        "warning", "The trace collector did not accept the last spans in time.", "Make sure that it is reachable."
    ),
    "stage_error": LogEvent("error", "A stage met an unexpected error and fails with an event.", _REPORT),
    STAGE_WAITS: LogEvent(
        "warning",
        "A stage waits because its model, the content store or a server does not answer.",
        "Fix the cause in `error`; `code` is one of the codes of the events.",
    ),
    "task_ended": LogEvent("info", "An attempt at a task ended; `status` says how.", _NOTHING),
    "tidying_error": LogEvent(
        "error", "Removing ended workflows from memory failed with an unexpected error.", _REPORT
    ),
    "tidying_postponed": LogEvent("info", "Ended workflows could not be removed from memory yet.", _NOTHING),
    "tool_server_ended": LogEvent(
        "info", "A tool server ended; the next call starts it again.", "Nothing if it is rare."
    ),
    "tool_server_unavailable": LogEvent(
        "warning",
        "A tool server cannot be used and its tools are not known yet, so PowerOn skips them.",
        "Run `poweron mcp check` for details, then restart this process.",
    ),
    "topic_made_again": LogEvent(
        "error",
        "The topic `topic` was deleted while in use; PowerOn created it again, and the roles continue with it.",
        "Find out who deletes topics. Requests that intake had not read are lost: senders without an answer must send "
        "them again.",
    ),
    "weak_replication": LogEvent(
        "warning",
        "A topic has several replicas, but a single broker confirms an append: its loss may lose events.",
        "Give the topic three replicas and `min.insync.replicas=2`.",
    ),
    "witness_answers": LogEvent("info", "A witness that did not answer cosigns the ledger again.", _NOTHING),
    "witness_error": LogEvent(
        "error",
        "This witness cannot read or write its folder, and cosigns nothing.",
        "Fix the cause in `error`. Never delete the folder: the witness would forget what it has seen.",
    ),
    "witness_silent": LogEvent(
        "warning",
        "A witness does not answer, or not with a cosignature; checkpoints are published without it.",
        "Fix the cause in `error`, with the operator of the witness.",
    ),
    "work_retried": LogEvent("error", "Work on a workflow met an unexpected error; PowerOn tries it again.", _REPORT),
    "workflow_stuck": LogEvent(
        "error",
        "Three events in a row had no effect on a workflow, and PowerOn stopped work on it; see `poweron workflows`.",
        "Report it, and check who else may write events. A cancellation ends the round.",
    ),
}
