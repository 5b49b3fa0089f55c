"""How a command ends: with an exit code, and with a sentence about any error."""

import os
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial
from typing import Any, Final, NoReturn, TypeVar, get_args

import structlog
import typer
from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails
from structlog.typing import EventDict, Processor
from typer.core import TyperOption

from poweron_events.codec import is_uuid
from poweron_events.codes import Code
from poweron_events.errors import LogLost, PowerOnError, Refused, Unavailable, Unserved
from poweron_events.request import MAX_REASON
from poweron_events.stream import REQUESTS
from poweron_events.validation_messages import explain
from poweron_projections.workflow_check import RowsDiffer, RowsMissing
from poweron_services import shutdown, telemetry
from poweron_services.cli.advice import LOG_LOST, UNAVAILABLE, advice, advice_for
from poweron_services.cli.context import AS_JSON, FAILED, STOPPED, STOPPED_CODE, USAGE
from poweron_services.cli.output import print_json, printable, tell
from poweron_services.client.client_errors import ClientError, NotAWorkflowId
from poweron_services.client.content_check import ContentLost
from poweron_services.log_redaction import hide_configured_secrets
from poweron_services.settings.config import PREFIX, Settings, misspelled

log = structlog.get_logger()

Result = TypeVar("Result")
LOG: Final = "poweron.log"
_CODES: Final = {FAILED: "failed", USAGE: "usage"}  # by exit code; all others are those of signals
_REQUESTS: Final = {kind.__name__ for kind in REQUESTS.values()}
_EXPECTED_KINDS: Final = {"int_parsing": "a whole number", "float_parsing": "a number"}


def stop(message: str, exit_code: int = FAILED, *, code: Code | None = None) -> NoReturn:
    """End the command with a sentence on stderr and, with `--json`, an object on stdout.

    Args:
        message: what went wrong, in whole sentences.
        exit_code: the exit code of the command.
        code: the code of the error for programs; by default `failed`, `usage` or `stopped`, by the exit code.
    """
    tell(message, style="bold red")
    tell_json(message, code or _CODES.get(exit_code, STOPPED_CODE))
    raise typer.Exit(exit_code)


def tell_json(message: str, code: Code) -> None:
    """Print an error as JSON, if the command was run with `--json`."""
    if AS_JSON.get():
        print_json({"error": printable(message), "code": code})


def check_id(workflow: str) -> None:
    """Refuse an invalid workflow id before anything is opened.

    Raises:
        NotAWorkflowId: the id is not a UUID in lower case.
    """
    if not is_uuid(workflow):
        raise NotAWorkflowId(workflow)


def check_reason(reason: str) -> None:
    """End the command if the reason is too long."""
    if len(reason) > MAX_REASON:
        stop(f"The reason has {len(reason):,} characters; at most {MAX_REASON:,} are allowed.", USAGE)


def load_settings(*watching: Processor) -> Settings:
    """Load the settings, and send log lines to a file in the data directory, since a user reads the terminal.

    Args:
        watching: processors that see every line, to report at once what a user must know.
    """
    settings = Settings()
    for warning in filter(None, (settings.deprecated, *misspelled(os.environ))):
        tell(warning, style="yellow")
    telemetry.configure("warning", telemetry.LogFile(settings.home / LOG), *watching, _tell_left_out)
    hide_configured_secrets(settings)
    return settings


def _tell_left_out(_: object, __: str, line: EventDict) -> EventDict:
    """Report third-party actions that cannot be used, since a user would miss them."""
    if line.get("event") == "action_left_out":
        which = f"{line.get('action')!r} of {line.get('source')}" if "action" in line else line.get("source")
        tell(f"An action of another package is left out, {which}: {line.get('error')}", style="yellow")
    elif line.get("event") == "tool_server_unavailable":
        tell(f"{line.get('error')} Its tools are left out. {advice_for('tool_server_unavailable')}", style="yellow")
    return line


@contextmanager
def sentences() -> Generator[None, None, None]:
    """Turn any error into a sentence and an exit code, without a traceback."""
    try:
        yield
    except typer.Exit:
        raise
    except KeyboardInterrupt as interrupt:
        stop(str(interrupt) or STOPPED, shutdown.exit_code())
    except Exception as error:  # noqa: BLE001 - the last place that can report it in a sentence
        _stop_with(_leaf(error))


def run_work(work: Coroutine[Any, Any, Result], stopped: Callable[[], str] = lambda: STOPPED) -> Result:
    """Run the work of a command; after SIGTERM or Ctrl-C print its state, even if not everything closed in time.

    Args:
        work: the work of the command.
        stopped: returns a sentence about the state of the work after a stop.

    Raises:
        KeyboardInterrupt: the work was stopped; the message is that sentence.
    """

    def say() -> None:
        tell(stopped(), style="bold red")
        tell_json(stopped(), STOPPED_CODE)

    with shutdown.at_deadline(partial(copy_context().run, say)):
        try:
            return shutdown.run(work)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(stopped()) from None


def argument(error: typer.BadParameter) -> str:
    """Explain what is wrong with an argument: what was given and what is expected."""
    wrong = error.__cause__
    if not isinstance(wrong, ValidationError) or not isinstance(error.param, TyperOption):
        return error.message
    problem = wrong.errors(include_url=False)[0]
    parameter = error.param.get_runtime_param()
    bounds = parameter.parameter_info
    if bounds.min is None and bounds.max is None:
        return f"{_plainly(problem)}."
    number = "number" if parameter.annotation is float else "whole number"
    return f"{problem['input']!r} is not a {number} {number_range(bounds.min, bounds.max)}."


def _leaf(error: BaseException) -> BaseException:
    """Return the first error of a task group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _stop_with(error: BaseException) -> NoReturn:
    message, code = explained(error)
    stop(message, USAGE if _is_usage(error) else FAILED, code=code)


def _is_usage(error: BaseException) -> bool:
    if isinstance(error, ValidationError):
        return error.title in {Settings.__name__, *_REQUESTS}
    return isinstance(error, NotAWorkflowId) or (isinstance(error, Refused) and error.code == "invalid_request")


def explained(error: BaseException) -> tuple[str, Code]:  # noqa: PLR0911 - one case per kind of error
    """Return what went wrong, in whole sentences, and its code for programs; every front end says the same."""
    error = _leaf(error)
    if isinstance(error, ValidationError) and error.title == Settings.__name__:
        return f"A setting cannot be used: {explain_settings(error)}.", "setting_invalid"
    if isinstance(error, ValidationError) and error.title in _REQUESTS:
        return f"The request is invalid: {explain(error)}.", "invalid_request"
    if isinstance(error, ClientError):
        return f"{sentence(error)} {advice(error)}", error.code
    if isinstance(error, LogLost):
        return f"{sentence(error)} {LOG_LOST}", error.code
    if isinstance(error, Unavailable) and not isinstance(error, Unserved):
        return f"{sentence(error)} {UNAVAILABLE if error.code == 'unavailable' else advice_for(error.code)}", error.code
    if isinstance(error, RowsDiffer | RowsMissing | ContentLost):
        return f"{sentence(error)} {advice_for(error.code)}", error.code
    if isinstance(error, PowerOnError):
        return sentence(error), error.code
    if isinstance(error, OSError) and error.filename is not None:
        unusable = f"{str(error.filename)!r} cannot be used: {error.strerror}."
        return f"{unusable} POWERON_HOME says where PowerOn keeps its data.", "file_unusable"
    if structlog.is_configured():
        log.error("command_error", exc_info=error)
    message = f"PowerOn met an unexpected error ({type(error).__name__})."
    return f"{message} {LOG} in the data directory says more.", "unexpected_error"


def _plainly(problem: ErrorDetails) -> str:
    """Say what was given and what is expected; secrets never appear, since any text is valid for them."""
    if problem["type"] == "value_error":
        return str(problem["ctx"]["error"]).removesuffix(".")  # our own message says both
    if (expectation := _EXPECTED_KINDS.get(problem["type"])) is not None:
        return f"{problem['input']!r} should be {expectation}"
    return problem["msg"].replace("Input", repr(problem["input"]), 1)


def sentence(error: BaseException) -> str:
    """Return the message of one of our errors as a sentence."""
    text = str(error)
    return text[:1].upper() + text[1:].removesuffix(".") + "."


# --- invalid settings -----------------------------------------------------------------------------

_NUMBERS: Final = {
    "int_parsing",
    "int_parsing_size",
    "float_parsing",
    "greater_than",
    "greater_than_equal",
    "less_than_equal",
}


def explain_settings(error: ValidationError) -> str:
    """Explain what is wrong with settings, under the names that they have in the environment."""
    return "; ".join(map(_explain, error.errors(include_url=False)))


def number_range(least: float | None, most: float | None, *, above: float | None = None) -> str:
    """Describe the range of a number, with all digits of its bounds."""
    if above is not None:
        return f"of more than {above:,}" + ("" if most is None else f" and at most {most:,}")
    if most is None:
        return f"of at least {least:,}"
    return f"of at most {most:,}" if least is None else f"from {least:,} to {most:,}"


def _explain(problem: ErrorDetails) -> str:
    """Explain one problem; secrets never appear, since any text is valid for them."""
    place = "_".join(map(str, problem["loc"]))
    variable = place if place.isupper() else f"{PREFIX}{place.upper()}"
    if problem["type"] == "value_error":
        return f"{variable}: {str(problem['ctx']['error']).removesuffix('.')}"  # our own message says all three
    field = Settings.model_fields.get(place)
    if field is None:
        return f"{variable}: {problem['msg']}"
    return f"{variable}: {problem['input']!r} is {_expectation(problem, field)}, or leave it unset{_default(field)}"


def _expectation(problem: ErrorDetails, field: FieldInfo) -> str:
    if problem["type"] == "literal_error":
        return f"not one of {problem['ctx']['expected'].replace(' or ', ', ')}; set it to one of them"
    if problem["type"] == "bool_parsing":
        return "neither true nor false; set it to one of them"
    if problem["type"] in _NUMBERS:
        kind = "number" if float in {field.annotation, *get_args(field.annotation)} else "whole number"
        bounds = number_range(_bound(field, "ge"), _bound(field, "le"), above=_bound(field, "gt"))
        return f"not a {kind} {bounds}; set it to such a number"
    return f"invalid ({problem['msg']}); docs/settings.md lists the possible values"


def _bound(field: FieldInfo, name: str) -> Any:
    return next((getattr(constraint, name) for constraint in field.metadata if hasattr(constraint, name)), None)


def _default(field: FieldInfo) -> str:
    """Return the default value as the end of a sentence; empty if there is none."""
    if field.default is None:
        return ""
    return f" for {str(field.default).lower() if isinstance(field.default, bool) else repr(field.default)}"
