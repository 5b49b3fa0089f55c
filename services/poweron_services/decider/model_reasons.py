"""Reasons as models see them (S8): a prompt names no provider, no setting and no path.

The code alone determines which sentence a model sees. Users and the log get the full reason.
"""

from collections.abc import Mapping
from typing import Final

from poweron_events.codes import RUN_TIME, Code

NEUTRAL: Final = "The service could not do this, for a reason that lies outside of the task."
"""What a model sees for any trouble at run time."""

SAID: Final[Mapping[str, str]] = {
    "answer_cut_off": "The answer became too long and was cut off; a shorter one is needed.",
    "answer_empty": "The answer was empty.",
    "answer_refused": "No answer was given; other words may help.",
    "document_missing": "What was to be read is not there any more.",
    "prompt_too_long": "There is more to read than fits into one question; fewer or shorter documents may help.",
}
"""What a model sees if it, or its choice, is at fault and the recorded sentence is meant for users."""


def reason_for_models(reason: str, code: Code | None) -> str:
    """Return what a model sees of a reason in the log.

    Release 0.2 and older wrote no codes, and put the detail below the first line of the reason.
    """
    if code is None:
        return reason.partition("\n")[0]
    return NEUTRAL if code in RUN_TIME else SAID.get(code, reason)
