"""Reasons as models are told them (S8): no provider, no setting and no place has a name in a prompt.

Which sentence a model gets follows from the code alone. People and the log are told the whole reason.
"""

from collections.abc import Mapping
from typing import Final

from poweron_events.codes import RUN_TIME, Code

NEUTRAL: Final = "The service could not do this, for a reason that lies outside of the task."
"""What a model hears of any trouble at run time."""

SAID: Final[Mapping[str, str]] = {
    "answer_cut_off": "The answer became too long and was cut off; a shorter one is needed.",
    "answer_empty": "The answer was empty.",
    "answer_refused": "No answer was given; other words may help.",
    "document_missing": "What was to be read is not there any more.",
    "prompt_too_long": "There is more to read than fits into one question; fewer or shorter documents may help.",
}
"""What a model hears where it, or what it chose, is at fault, and where the sentence beside the code is for people."""


def reason_for_models(reason: str, code: Code | None) -> str:
    """What a model is told of a reason in the log.

    Release 0.2 and older wrote no codes, and the detail below the first line of the reason.
    """
    if code is None:
        return reason.partition("\n")[0]
    return NEUTRAL if code in RUN_TIME else SAID.get(code, reason)
