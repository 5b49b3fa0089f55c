"""Stage 1: extract what has not been read, then answer from it; the last task writes the report.

What an action needs in stage 2 stands in the parameters context, since stage 2 is shown nothing else.
"""

import re
from dataclasses import dataclass, field, replace

from pydantic import JsonValue

from poweron_events.fold.history import list_reference
from poweron_events.fold.state import ChatMessage
from poweron_events.selection import ParametersSchema, SchemaField
from poweron_services.models.answers import SelectionAnswer
from poweron_services.models.builtin.parameters import context
from poweron_services.models.builtin.phrases import say
from poweron_services.models.builtin.words import known_language
from poweron_services.models.prompts import DocumentLine, SelectionPrompt

EXTRACT, PROCESS, REPORT, SEARCH = "document.extract", "ai.process", "document.generateReport", "web.search"
MAX_TITLE = 100  # characters
MAX_QUERY = 400  # characters
MAX_LEARNINGS = 5

_REQUEST_LABEL = re.compile(r"round(\d+)_request")
_EXTRACTED = re.compile(r"round(\d+)_task\d+_action\d+_extract")
_READABLE = re.compile(r"round\d+_task\d+_action\d+_(?:extract|search|scrape|crawl)")
_WRITTEN = re.compile(r"round(\d+)_task\d+_action\d+_process")


@dataclass(frozen=True, slots=True)
class Choice:
    """An action, the document lists it works on, and what stage 2 shall set."""

    action: str
    objective: str
    references: tuple[str, ...] = ()
    values: dict[str, JsonValue] = field(default_factory=dict)


def select(prompt: SelectionPrompt) -> str:
    """The selection of one action."""
    return _answer(choose(prompt), prompt.improvements).model_dump_json(by_alias=True)


def choose(prompt: SelectionPrompt) -> Choice:
    """The one action that is next."""
    choice = _choice(prompt, _offered(prompt))
    if prompt.refusal:
        choice = replace(choice, references=_one_by_one(choice.references, prompt.documents))
    return choice


def _offered(prompt: SelectionPrompt) -> set[str]:
    """The actions of the catalog, without the one that was just refused."""
    every = {line.name for line in prompt.catalog}
    return {name for name in every if repr(name) not in (prompt.refusal or "")} or every


def _choice(prompt: SelectionPrompt, offered: set[str]) -> Choice:
    written = _written(prompt)
    if prompt.task_type == "report" and REPORT in offered and written:
        return _report(prompt, written)
    unread = _unread(prompt)
    if unread and EXTRACT in offered and prompt.steps_left != 1:
        return Choice(EXTRACT, "Read text and tables of the documents that came with the request.", unread)
    if SEARCH in offered and not prompt.documents and not _tried(SEARCH, prompt.history):
        query: dict[str, JsonValue] = {"query": prompt.user_prompt[:MAX_QUERY]}
        return Choice(SEARCH, "Search the web, since no documents were handed over.", values=query)
    readable = _readable(prompt)
    if PROCESS in offered or not offered:
        return _process(prompt, readable or _requested(prompt) or _all(prompt))
    return _whatever(prompt, offered, readable or _all(prompt))


def _process(prompt: SelectionPrompt, references: tuple[str, ...]) -> Choice:
    values: dict[str, JsonValue] = {"aiPrompt": prompt.user_prompt}
    formats = [name for name in prompt.expected_formats if name in ("json", "csv")]
    if formats:
        values["expectedDocumentFormats"] = list[JsonValue](formats[:1])
    how = "Write the result from the text" if formats else "Answer the request from the text"
    return Choice(PROCESS, f"{how} of the documents, each statement with its source.", references, values=values)


def _report(prompt: SelectionPrompt, references: tuple[str, ...]) -> Choice:
    return Choice(REPORT, "Write the report from what was found.", references, values={"title": _title(prompt)})


def _whatever(prompt: SelectionPrompt, offered: set[str], references: tuple[str, ...]) -> Choice:
    """The action to take where answering is not among those allowed."""
    for action in (REPORT, EXTRACT):
        if action in offered and references:
            return (
                _report(prompt, references) if action == REPORT else Choice(action, "Read the documents.", references)
            )
    return Choice(
        min(offered),
        "Do what is allowed for this request.",
        references,
        values={"query": prompt.user_prompt[:MAX_QUERY]},
    )


def _answer(choice: Choice, learnings: tuple[str, ...]) -> SelectionAnswer:
    return SelectionAnswer(
        action=choice.action,
        action_objective=choice.objective,
        learnings=learnings[:MAX_LEARNINGS],
        required_input_documents=choice.references,
        parameters_context=context(**choice.values),
        parameters_schema=ParametersSchema(fields=tuple(_FIELDS[name] for name in choice.values)),
    )


_FIELDS = {
    "aiPrompt": SchemaField(name="aiPrompt", required=True, description="The request in the words of the user."),
    "expectedDocumentFormats": SchemaField(
        name="expectedDocumentFormats", type="object", description="The formats of the result, a list."
    ),
    "title": SchemaField(name="title", description="The title of the report."),
    "query": SchemaField(name="query", required=True, description="What to search for."),
}


def _unread(prompt: SelectionPrompt) -> tuple[str, ...]:
    """The lists of documents that came with a request and that nobody has tried to extract since."""
    tried = [message.round for message in prompt.history if message.action == EXTRACT]
    read = [int(found[1]) for label in _distinct(prompt.documents) if (found := _EXTRACTED.fullmatch(label))]
    last = max((*tried, *read), default=0)
    return tuple(list_reference(label) for label in _request_labels(prompt) if int(label[5:].split("_")[0]) > last)


def _requested(prompt: SelectionPrompt) -> tuple[str, ...]:
    return tuple(list_reference(label) for label in _request_labels(prompt))


def _request_labels(prompt: SelectionPrompt) -> list[str]:
    return [label for label in _distinct(prompt.documents) if _REQUEST_LABEL.fullmatch(label)]


def _all(prompt: SelectionPrompt) -> tuple[str, ...]:
    return tuple(list_reference(label) for label in _distinct(prompt.documents))


def _distinct(documents: tuple[DocumentLine, ...]) -> list[str]:
    return list(dict.fromkeys(line.label for line in documents if line.label))


def _written(prompt: SelectionPrompt) -> tuple[str, ...]:
    """The lists of what was written in this round."""
    now = max((message.round for message in prompt.history), default=0)
    labels = [label for label in _distinct(prompt.documents) if _WRITTEN.fullmatch(label)]
    return tuple(list_reference(label) for label in labels if int(label[5:].split("_")[0]) >= now)


def _readable(prompt: SelectionPrompt) -> tuple[str, ...]:
    """The lists of what was read; nothing if answering from them has failed, so that something else is tried."""
    if any(message.action == PROCESS and message.success is False for message in prompt.history):
        return ()
    return tuple(list_reference(label) for label in _distinct(prompt.documents) if _READABLE.fullmatch(label))


def _tried(action: str, history: tuple[ChatMessage, ...]) -> bool:
    return any(message.action == action for message in history)


def _one_by_one(references: tuple[str, ...], documents: tuple[DocumentLine, ...]) -> tuple[str, ...]:
    """The documents of the lists, each by its own reference."""
    return tuple(line.reference for line in documents if list_reference(line.label) in references)


def _title(prompt: SelectionPrompt) -> str:
    names = [line.name for line in prompt.documents if _REQUEST_LABEL.fullmatch(line.label)]
    language = known_language(prompt.language, prompt.user_prompt)
    return say("report_on", language, names=", ".join(names[:3]))[:MAX_TITLE] if names else "Report"
