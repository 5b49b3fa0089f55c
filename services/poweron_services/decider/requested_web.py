"""Whether a request names the web: small models search the web for what the documents at hand already say."""

import re
from typing import Final

from poweron_events.fold.state import Workflow

_NAMES_WEB: Final = re.compile(r"https?:|\bwww\.|\b(?:web\w*|internet|online|netz|google)\b", re.IGNORECASE)


def reads_documents_first(workflow: Workflow) -> bool:
    """Return whether the round has documents, none of its steps has run, and its request does not name the web."""
    opening = workflow.current.opening
    began = any(message.kind == "step" for message in workflow.current.messages)
    return bool(opening.documents) and not began and not _NAMES_WEB.search(opening.prompt)
