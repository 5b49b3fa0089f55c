"""A model that answers from a script, for tests and demonstrations."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from poweron_events.codec import dumps
from poweron_events.errors import Refused
from poweron_services.models.chat_model import Completion, free
from poweron_services.models.prompts import (
    ActionsPrompt,
    MessagePrompt,
    ParametersPrompt,
    PlanningPrompt,
    ProcessPrompt,
    Prompt,
    RefinementPrompt,
    ReviewPrompt,
    SelectionPrompt,
)

_KINDS = {
    kind.__name__: kind
    for kind in (
        PlanningPrompt,
        ActionsPrompt,
        SelectionPrompt,
        ParametersPrompt,
        RefinementPrompt,
        ReviewPrompt,
        ProcessPrompt,
        MessagePrompt,
    )
}

REMEMBERED = 1_000  # prompts that are remembered, the newest
PROMPT, ANSWER = 10, 5  # tokens that every call takes

Line = str | dict[str, Any] | Exception | Callable[[Prompt], "str | dict[str, Any]"]


class ScriptedModel:
    """Answers each kind of prompt with the lines of its script, in order; the last line is repeated.

    A line is a text, an object to be written as JSON, an exception to be raised, or a function of the prompt.
    """

    def __init__(self, script: Mapping[type[Prompt], Sequence[Line]]) -> None:
        self._script = {kind: list(lines) for kind, lines in script.items()}
        self.asked: deque[Prompt] = deque(maxlen=REMEMBERED)

    @classmethod
    def from_file(cls, path: str) -> "ScriptedModel":
        """Read a script from a JSON file: {"SelectionPrompt": ["…", {…}], …}.

        Raises:
            Refused: the file is not a readable script.
        """
        try:
            script = orjson.loads(Path(path).read_bytes())
            return cls({_KINDS[kind]: lines for kind, lines in script.items()})
        except (OSError, orjson.JSONDecodeError, KeyError, AttributeError) as error:
            reason = error.strerror if isinstance(error, OSError) else repr(error)
            raise Refused(
                f"The script {path!r} cannot be read: {reason}. It must be a JSON object of lists."
            ) from error

    async def complete(self, prompt: Prompt) -> Completion:
        if prompt.allowance is not None:
            prompt.allowance.longest_answer(PROMPT, ANSWER, free)
        self.asked.append(prompt)
        line = self._next(type(prompt))
        if isinstance(line, Exception):
            raise line
        answer = line(prompt) if callable(line) else line
        text = answer if isinstance(answer, str) else dumps(answer).decode()
        return Completion(text, provider="scripted", model="script", input_tokens=PROMPT, output_tokens=ANSWER)

    def _next(self, kind: type[Prompt]) -> Line:
        lines = self._script[kind]
        return lines.pop(0) if len(lines) > 1 else lines[0]
