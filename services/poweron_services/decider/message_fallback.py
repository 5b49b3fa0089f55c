"""The sentence above the results if the model's final message was cut off or filtered; the log has the rest."""

from collections.abc import Mapping
from typing import Final

from poweron_events.codes import Code
from poweron_events.fold.state import Workflow
from poweron_services.decider.defaults import own_language

_SENTENCES: Final[Mapping[Code, Mapping[str, str]]] = {
    "answer_cut_off": {
        "en": "The final message was cut off at the limit of its length. These are the results as they stand:",
        "de": "Die Schlussnachricht wurde an der Grenze ihrer Länge abgeschnitten. Dies sind die Ergebnisse selbst:",
    },
    "prompt_too_long": {
        "en": "The final message was cut off, since prompt and message are longer than what the model takes. "
        "These are the results as they stand:",
        "de": "Die Schlussnachricht wurde abgeschnitten, da Prompt und Nachricht länger sind, als das Modell fasst. "
        "Dies sind die Ergebnisse selbst:",
    },
    "answer_refused": {
        "en": "The final message was filtered: the model, or a filter of its provider, would not write it. "
        "These are the results as they stand:",
        "de": "Die Schlussnachricht wurde gefiltert: Das Modell oder ein Filter seines Anbieters lehnte sie ab. "
        "Dies sind die Ergebnisse selbst:",
    },
}


def why_unwritten(workflow: Workflow, code: Code) -> str:
    """Say why the final message is missing or incomplete; empty if the model simply wrote none."""
    sentences = _SENTENCES.get(code)
    return sentences[own_language(workflow)] if sentences else ""
