"""The built-in model's choice of action: read unread documents, then answer from them; the last task writes a report.

Stage 1 writes the parameters as JSON into its parameters context, from which stage 2 reads them.
"""

import re
from collections.abc import Iterable
from typing import Final

import orjson
from pydantic import JsonValue

from poweron_events.catalog import WRITING
from poweron_events.fold.history import list_reference
from poweron_events.fold.state import action_label
from poweron_events.step_events import ParametersSchema, SchemaField
from poweron_services.models.answers import ActionAnswer, ActionsAnswer, SelectionAnswer
from poweron_services.models.builtin.phrases import say
from poweron_services.models.builtin.tool_choice import lists, next_tool, result_labels, wanted_tools
from poweron_services.models.builtin.vocabulary import known_language
from poweron_services.models.builtin.web_choice import CRAWL, PAGES, has_documents, next_lookup, query
from poweron_services.models.prompts import ActionsPrompt, ParametersPrompt, SelectionPrompt

MAX_TITLE: Final = 120  # characters
_POLITE: Final = re.compile(
    r"^\W*(?:(?:please|bitte|s'il (?:vous|te) plaît|por favor|per favore)\W+|(?:can|could|would) you (?:please )?)+",
    re.IGNORECASE,
)
_MAKE: Final = re.compile(
    r"^(?:write|create|make|prepare|draft|generate|produce|compile|give me|i (?:need|want)|schreib\w*|erstell\w*"
    r"|verfass\w*|mach\w*|rédige\w*|écri\w*|prépare\w*|crée\w*|escrib\w*|redact\w*|haz|prepara\w*|scriv\w*|redig\w*|crea\w*|اكتب|أعد|أنشئ)\s+"
    r"(?:(?:me|us|mir|uns|daraus)\s+)?(?:(?:an?|the|eine?[nrms]?|une?|un[ao]?|el|la|il|le)\s+)?"
    r"(?:(?:short|brief|detailed|kurze[nrms]?|ausführliche[nrms]?|court|brève?|breve|corto)\s+)*(?=\w)",
    re.IGNORECASE,
)
_SUM_UP: Final = re.compile(
    r"^(?:summari[sz]e|sum up|fasse?|résume[rz]?|resum[ea]|riassumi)\s+(?P<what>.+?)(?:\s+zusammen)?$", re.IGNORECASE
)
_COMPARE: Final = re.compile(r"^(?:compare|vergleiche?|comparez|compara|confronta)\s+(?P<what>.+)$", re.IGNORECASE)
_FORMAT: Final = re.compile(
    r"\s*\(?\b(?:as|in|into|als|im|en|au format)\s+(?:(?:an?|eine?[mnrs]?|une?)\s+)?"
    r"\.?(?:pdf|word|docx|excel|xlsx|html|markdown|csv|json|powerpoint)\b.*$"
    r"|\s+(?:with|mit|avec|con)\s+(?:sources|quellen|fuentes|fonti)\b.*$",
    re.IGNORECASE | re.DOTALL,
)
_SENTENCE_END: Final = re.compile(
    r"(?<=\w)[.!?;](?=\s|$)|\n|,?\s(?:and|then|und|dann|et|y|e)\s(?=(?:make|write|create|give|mach|schreib|erstell)\w*\b)"
)
_GERMAN_ARTICLE: Final = re.compile(r"^(?:de[nrms]|die|das|eine?[nrms]?)\s+", re.IGNORECASE)
EXTRACT, PROCESS, REPORT = "document.extract", "ai.process", "document.generateReport"
MAX_LEARNINGS = 5
MAX_CONTEXT = 8_000  # characters of a parameters context

_LABEL = re.compile(r"round(?P<round>\d+)_(?:request|task\d+_action\d+_(?P<action>\w+))")
_FREE_TEXT: Final = ("aiPrompt", "query")  # parameters that any context can fill: the question, in words


def select(prompt: SelectionPrompt) -> str:
    """Select one action."""
    return _choose(prompt).model_dump_json(by_alias=True)


def fill(prompt: ParametersPrompt) -> str:
    """Set the fields of the schema for which the context has a value."""
    values = _context_values(prompt.parameters_context)
    parameters = {field.name: value for field in prompt.fields if (value := _value(field, values, prompt)) is not None}
    return orjson.dumps({"schema": "parameters_v1", "parameters": parameters}).decode()


def plan_actions(prompt: ActionsPrompt) -> str:
    """Plan all actions of a task at once (mode Actionplan): those that stage 1 would select if each succeeded.

    A plan ends after an action that lists files: what to read of them is planned once the list is known.
    """
    fields = prompt.shown()
    values = {name: fields[name] for name in fields if name not in ("max_steps", "place", "first_action")}
    selection = SelectionPrompt(template=prompt.template, **values, hint=None, steps_left=prompt.max_steps)
    choices = [_choose(selection)]
    if choices[0].action not in WRITING and not lists(choices[0].action) and prompt.max_steps > 1:
        label = f"{prompt.place}_action{prompt.first_action}_{action_label(choices[0].action)}"
        choices.append(_writing(selection, (list_reference(label),)))
    actions = tuple(
        ActionAnswer(
            action=choice.action,
            action_objective=choice.action_objective,
            learnings=choice.learnings,
            required_input_documents=choice.required_input_documents,
            parameters=_context_values(choice.parameters_context),
        )
        for choice in choices
    )
    return ActionsAnswer(actions=actions).model_dump_json(by_alias=True)


def _choose(prompt: SelectionPrompt) -> SelectionAnswer:
    """Choose the next action; after a refusal, name single documents instead of lists."""
    choice = _choice(prompt)
    if not prompt.refusal:
        return choice
    lists = choice.required_input_documents
    single = tuple(line.reference for line in prompt.documents if list_reference(line.label) in lists)
    return choice.model_copy(update={"required_input_documents": single})


def _choice(prompt: SelectionPrompt) -> SelectionAnswer:
    actions = {line.name for line in prompt.catalog}
    now = max((message.round for message in prompt.history), default=0)
    if prompt.task_type == "report" and REPORT in actions and (results := _lists(prompt, "process", since=now)):
        return _report(prompt, results)
    if EXTRACT in actions and prompt.steps_left != 1 and (unread := _unread(prompt)):
        return _step(prompt, EXTRACT, "Read text and tables of the documents that came with the request.", unread)
    if tool := next_tool(prompt):
        return _step(prompt, tool.action, tool.objective, (), **tool.values)
    tools = result_labels(wanted_tools(prompt, prompt.catalog))
    if not tools and (action := next_lookup(prompt)):
        return _lookup(prompt, action)
    has_failed = any(message.action == PROCESS and message.success is False for message in prompt.history)
    references = () if has_failed else _lists(prompt, "extract", *PAGES, *tools)
    return _writing(prompt, references or _lists(prompt, None) or _lists(prompt))


def _lookup(prompt: SelectionPrompt, action: str) -> SelectionAnswer:
    """Select a web action and what it looks for."""
    if action == CRAWL:
        references = _lists(prompt, None) or _lists(prompt, *PAGES) or _lists(prompt)
        return _step(prompt, CRAWL, "Read the pages that the documents link to.", references)
    reason = "as the request asks for it" if has_documents(prompt) else "since no documents were handed over"
    return _step(prompt, action, f"Look up the answer in the web, {reason}.", (), query=query(prompt.user_prompt))


def _writing(prompt: SelectionPrompt, references: tuple[str, ...]) -> SelectionAnswer:
    """Select the action that writes from what was read, or else any action that is allowed."""
    actions = {line.name for line in prompt.catalog}
    if PROCESS in actions or not actions:
        return _process(prompt, references)
    if REPORT in actions and references:
        return _report(prompt, references)
    return _step(prompt, min(actions), "Do what is allowed for this request.", references)


def _process(prompt: SelectionPrompt, references: tuple[str, ...]) -> SelectionAnswer:
    values: dict[str, JsonValue] = {"aiPrompt": prompt.user_prompt}
    formats = [name for name in prompt.expected_formats if name in ("json", "csv")]
    if formats:
        values["expectedDocumentFormats"] = list[JsonValue](formats[:1])
    beginning = "Write the result from the text" if formats else "Answer the request from the text"
    return _step(
        prompt, PROCESS, f"{beginning} of the documents, each statement with its source.", references, **values
    )


def _report(prompt: SelectionPrompt, references: tuple[str, ...]) -> SelectionAnswer:
    title = report_title(prompt.user_prompt, known_language(prompt.language, prompt.user_prompt))
    return _step(prompt, REPORT, "Write the report from what was found.", references, title=title)


def _unread(prompt: SelectionPrompt) -> tuple[str, ...]:
    """Return the lists of documents that came with a request and that no action has tried to extract since."""
    attempt_rounds = [message.round for message in prompt.history if message.action == EXTRACT]
    extract_rounds = [_round(label) for label in _labels(prompt) if _is_of(label, "extract")]
    return _lists(prompt, None, since=max((*attempt_rounds, *extract_rounds), default=0) + 1)


def _lists(prompt: SelectionPrompt, *actions: str | None, since: int = 0) -> tuple[str, ...]:
    """Return the lists that the named actions left (None: those of requests); all lists if no action is named."""
    labels = (label for label in _labels(prompt) if not actions or (_is_of(label, *actions) and _round(label) >= since))
    return tuple(map(list_reference, labels))


def _labels(prompt: SelectionPrompt) -> Iterable[str]:
    """Return the labels of all documents, newest first; labels of documents missing from the index come last."""
    document_labels, list_labels = (line.label for line in prompt.documents), (line.label for line in prompt.lists)
    return dict.fromkeys(label for label in (*document_labels, *list_labels) if label)


def _is_of(label: str, *actions: str | None) -> bool:
    match = _LABEL.fullmatch(label)
    return match is not None and match["action"] in actions


def _round(label: str) -> int:
    match = _LABEL.fullmatch(label)
    return int(match["round"]) if match else 0


def _step(
    prompt: SelectionPrompt, action: str, objective: str, references: tuple[str, ...], **values: JsonValue
) -> SelectionAnswer:
    """Build the selection of an action, with its document lists and the parameters that stage 2 must set."""
    fields = [
        SchemaField(name=name, type="object" if isinstance(value, list) else "string", required=name in _FREE_TEXT)
        for name, value in values.items()
    ]
    return SelectionAnswer(
        action=action,
        action_objective=objective,
        learnings=prompt.improvements[:MAX_LEARNINGS],
        required_input_documents=references,
        parameters_context=_context(values),
        parameters_schema=ParametersSchema(fields=tuple(fields)),
    )


def _context(values: dict[str, JsonValue]) -> str:
    """Write a parameters context; truncate long texts until it fits."""
    limit = MAX_CONTEXT
    while True:
        short_values = {name: value[:limit] if isinstance(value, str) else value for name, value in values.items()}
        text = orjson.dumps(short_values).decode() if short_values else ""
        if len(text) <= MAX_CONTEXT:
            return text
        limit = limit * 3 // 4


def _context_values(context: str) -> dict[str, JsonValue]:
    """Parse the values in a parameters context; none if another model wrote it in its own words."""
    try:
        values = orjson.loads(context)
    except orjson.JSONDecodeError:
        return {}
    return values if isinstance(values, dict) else {}


def _value(field: SchemaField, values: dict[str, JsonValue], prompt: ParametersPrompt) -> JsonValue:
    if field.name in values:
        return values[field.name]
    is_free = field.required and field.type == "string"
    return (prompt.parameters_context.strip() or prompt.action_objective) if is_free else None


def report_title(request: str, language: str) -> str:
    """Return the topic of a report: the first sentence of the request, without the instruction and the format."""
    topic = _FORMAT.sub("", _POLITE.sub("", _SENTENCE_END.split(request.strip(), maxsplit=1)[0])).strip(" ,.")
    for pattern, phrase in ((_SUM_UP, "summary_of"), (_COMPARE, "comparison_of")):
        if match := pattern.match(topic):
            return _about(phrase, match["what"], language)[:MAX_TITLE]
    title = _MAKE.sub("", topic)
    return (title[:1].upper() + title[1:])[:MAX_TITLE] or "Report"


def _about(phrase: str, subject: str, language: str) -> str:
    """Return the title of a summary or a comparison; in German with a colon, since a phrase would change the case."""
    if language == "de":
        return f"{say(phrase, language, names='').partition(' ')[0]}: {_GERMAN_ARTICLE.sub('', subject)}"
    return say(phrase, language, names=subject)
