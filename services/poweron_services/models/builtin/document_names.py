"""Documents that a question names: “according to the offer and the invoice”, “in a.txt and b.txt”, “in both letters”.

A document is named by its file name, or by a word for its kind that its name or its first lines contain and those of
no other document.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from poweron_services.models.builtin.value_lists import DOCUMENT
from poweron_services.models.builtin.vocabulary import meanings, terms, token_terms, tokens

SHORTEST_STEM: Final = 3  # characters of a file name without its extension
SHORTEST_PART: Final = 5  # letters of a word that a compound ends with
BESIDE: Final = 2  # words beside a word for a document that tell it from others of its kind

_MARK: Final = "\ue000"  # replaces a reference
_PREPOSITION: Final = (
    r"(?:according to|as per|per|with regard to|in|from|of|by|on|under|between|within|across|versus|vs\.?|against"
    r"|than in|laut|gemäß|gemäss|nach|im|aus|von|vom|zwischen|in|mit|gegenüber|entsprechend)"
)
_ARTICLE: Final = (
    r"(?:the|this|that|our|my|your|der|die|das|dem|den|des|diese[mnrs]?|unsere[mnrs]?|meine[mnrs]?|file|document|datei"
    r"|dokument)"
)
_CONJUNCTION: Final = r"(?:,?\s*(?:and|or|und|oder|sowie|bzw\.?|as well as|respectively|,|&|/)\s*(?:also\s+|auch\s+)?)"
_REFERENCES: Final = re.compile(
    rf"(?:{_CONJUNCTION}?(?<!\w)(?:{_PREPOSITION}\s+)*(?:{_ARTICLE}\s+)*{_MARK}(?:\s+(?:zufolge|respectively|jeweils))?)+",
    re.IGNORECASE,
)
_LEADING_REFERENCE: Final = re.compile(rf"\W*{_PREPOSITION}\s+(?:{_ARTICLE}\s+)*{_MARK}\s*[,:]", re.IGNORECASE)
_COORDINATED: Final = re.compile(rf"\s*{_CONJUNCTION}(?:(?:{_PREPOSITION}|{_ARTICLE})\s+)*{_MARK}", re.IGNORECASE)
_ALL: Final = re.compile(
    rf"\b(?:both|each(?: of the)?|every|all(?: the| of the| of these)?|the (?:two|three|four)|beiden?|jede[mnrs]?"
    rf"|alle[nr]?|den (?:zwei|drei|vier))(?:\s+\w+)??\s+(?P<kind>{DOCUMENT}|of them)\b",
    re.IGNORECASE,
)
_ALL_OF_THEM: Final = re.compile(r"^\W*of them$|dokument|document|datei|file|unterlage|text", re.IGNORECASE)
_SAYING: Final = re.compile(
    r"\b(?:says?|said|states?|mentions?|gives?|tells?|quotes?|shows?|lists?|specif(?:y|ies)|sagt|sagen|nennt|nennen|gibt"
    r"|geben|angibt|angeben|steht|stehen|machen|macht)\b(?:\s+(?:about|on|as|zu[mr]?|über))?"
    r"|(?<!the )\bnames?\b(?=\W*$)",
    re.IGNORECASE,
)
_COMPARATIVE: Final = (
    r"(?:more|less|higher|lower|larger|smaller|cheaper|longer|shorter|earlier|later|greater|höher|niedriger|größer|kleiner"
    r"|teurer|billiger|günstiger|länger|kürzer|früher|später)"
)
_DIFFERING: Final = re.compile(
    r"\b(?:differ\w*(?:\s+(?:between|in|for))?|agree\w*|disagree\w*|match(?:es)?|(?:the )?same|identical\w*"
    r"|consistent\w*|contradict\w*|conflict\w*|unterscheide\w*|unterschied\w*|abweich\w*|weich\w*|übereinstimm\w*|überein|stimm\w*"
    rf"|{_COMPARATIVE}(?:\s+(?:than|als))?(?=\W*$)"
    r"|identisch\w*|widersprech\w*|respectively|each|jeweils|both|beide[ns]?)\b",
    re.IGNORECASE,
)
_DOCUMENT: Final = re.compile(rf"(?<![\w.-]){DOCUMENT}(?![\w-]|\.\w)", re.IGNORECASE)
_PLURAL: Final = re.compile(
    r"(?!minutes\Z|.*ss\Z).*(?:s|ies)\Z|.*(?:ungen|ichten|ateien|dokumente|texte|briefe|träge|träg|gebote|offerten"
    r"|berichte|protokolle|policen|bücher|tabellen|listen|seiten|präsentationen|folien|formulare|bescheide|schläge|unterlagen"
    r"|broschüren|anhänge)n?\Z",
    re.IGNORECASE,
)
_GERMAN_SINGULAR: Final = re.compile(
    r".*(?:dokument|text|brief|vertrag|angebot|bericht|protokoll|formular|bescheid|auftrag)e?s\Z", re.IGNORECASE
)
_LEADS: Final = re.compile(
    rf"(?:{_PREPOSITION}|{_ARTICLE}|and|or|und|oder|sowie|bzw\.?|do|does|did|an?|eine?[mnr]?|zu[rm]?|zwischen)\Z",
    re.IGNORECASE,
)
_FOLLOWS: Final = re.compile(
    rf"\W*\Z|\W*[,;:?!.)\"”“]|\s*{_MARK}|\s+(?:{_PREPOSITION}|{_ARTICLE}|and|or|und|oder|sowie|bzw|is|are|was"
    rf"|were|does?|did|has|have|about|zu[rm]?|über|als|than|for|für|when|what|who|how|wann|was|wer|wie|ist|sind|hat|haben|beim?"
    rf"|respectively|überein|unterschiedlich\w*|\d|{_COMPARATIVE}|{_SAYING.pattern}|{_DIFFERING.pattern})(?!\w)",
    re.IGNORECASE,
)
"""What follows a reference; any other word makes it a part of a name, such as “invoice number”."""
_LEADING: Final = r"(?:(?<=in )|(?<=and )|(?<=und )|(?<=from )|(?<=laut )|(?<=aus )|(?<=to )|(?<=gemäß ))"
"""What comes before a file name that is a plain word and has no extension."""
_EXTENSION: Final = re.compile(r"\.\w{1,5}\Z")


@dataclass(frozen=True, slots=True)
class NamedDocuments:
    """The documents that a question names, in its order, and the question without them."""

    documents: tuple[str, ...]
    question: str
    is_leading: bool = False
    """Whether the question begins with the one document: “According to the contract, …”."""


def named_documents(question: str, titles: Mapping[str, frozenset[str]], language: str) -> NamedDocuments:
    """Return the documents that a question names.

    Args:
        question: the question.
        titles: the words of the name and the first lines of each document.
        language: the language in which words are compared.
    """
    text, documents = _without_file_names(question, list(titles))
    text, of_all = _without_all(text, titles, language)
    text, of_kind = _without_kinds(text, titles, language)
    documents = {**documents, **of_all, **of_kind}
    if not documents:
        return NamedDocuments((), question)
    is_leading = bool(_LEADING_REFERENCE.match(text)) and len(documents) == 1
    text = _REFERENCES.sub(" ", text).replace(_MARK, " ")
    text = _SAYING.sub(" ", _DIFFERING.sub(" ", text)) if len(documents) > 1 else text
    order = sorted(documents, key=lambda document: documents[document])
    return NamedDocuments(tuple(order), " ".join(text.split()).lstrip(" ,:"), is_leading)


def _without_file_names(text: str, names: Sequence[str]) -> tuple[str, dict[str, int]]:
    """Replace file names, with or without their extension; return the documents by the position of their names."""
    positions: dict[str, int] = {}
    for name in sorted(names, key=len, reverse=True):
        stem = _EXTENSION.sub("", name)
        is_plain_word = stem.isalpha()
        quotes = r"[\"'“”„«»`]?"
        patterns = [re.escape(name)]
        if len(stem) >= SHORTEST_STEM:
            patterns.append(
                (_LEADING if is_plain_word else "") + r"[\s_-]".join(map(re.escape, re.split(r"[\s_-]", stem)))
            )
        pattern = rf"{quotes}(?<![\w.-])(?:{'|'.join(patterns)})(?![\w-]|\.\w){quotes}"
        if match := re.search(pattern, text, re.IGNORECASE):
            positions[name] = match.start()
            text = re.sub(pattern, lambda match: _MARK.ljust(len(match[0])), text, flags=re.IGNORECASE)
    return text, positions


def _without_all(text: str, titles: Mapping[str, frozenset[str]], language: str) -> tuple[str, dict[str, int]]:
    """Replace words for all documents, or for all of a kind, such as “both offers”."""
    match = _ALL.search(text)
    if match is None:
        return text, {}
    kind = match["kind"]
    documents = [*titles] if _ALL_OF_THEM.search(kind) else _of_kind(kind, titles, language)
    if len(documents) < 2:
        return text, {}
    text = text[: match.start()] + _MARK.ljust(len(match[0])) + text[match.end() :]
    return text, {document: match.start() + at for at, document in enumerate(documents)}


def _without_kinds(text: str, titles: Mapping[str, frozenset[str]], language: str) -> tuple[str, dict[str, int]]:
    """Replace words for kinds of documents that name one document each."""
    positions: dict[str, int] = {}
    for match in reversed([*_DOCUMENT.finditer(text)]):
        if not _is_reference(text, match):
            continue
        documents = _of_kind(match[0], titles, language)
        start, end = match.span()
        if len(documents) > 1:
            documents, start, end = _told_apart(text, match, documents, titles)
        if len(documents) == 1:
            positions[documents[0]] = start
            text = text[:start] + _MARK.ljust(end - start) + text[end:]
    return text, positions


def _is_reference(text: str, match: re.Match[str]) -> bool:
    """Return whether a word for a kind of document means one document, not several or a part of another name."""
    if _PLURAL.fullmatch(match[0]) and not _GERMAN_SINGULAR.fullmatch(match[0]):
        return False
    if _COORDINATED.match(text, match.end()):
        return True
    words = re.findall(r"[\w.-]+", text[: match.start()])[-BESIDE:]
    return bool(_FOLLOWS.match(text, match.end())) and (not words or any(map(_LEADS.match, words)))


def _of_kind(word: str, titles: Mapping[str, frozenset[str]], language: str) -> list[str]:
    """Return the documents whose name has a word for a kind of document, or else a synonym, or else whose titles do."""
    stems = frozenset(token_terms(word, language))
    same = frozenset(synonym for stem in stems for synonym in meanings(language).get(stem, ()))
    names = {document: frozenset(_name_terms(document, language)) for document in titles}
    rules = (
        lambda document: stems & names[document],
        lambda document: any(_is_compound(word, part) for part in tokens(_spaced(document))),
        lambda document: stems & titles[document],
        lambda document: same & names[document],
        lambda document: same & titles[document],
    )
    found = ([document for document in titles if rule(document)] for rule in rules)
    return next(filter(None, found), [])


def _told_apart(
    text: str, match: re.Match[str], documents: Sequence[str], titles: Mapping[str, frozenset[str]]
) -> tuple[list[str], int, int]:
    """Return the one document of a kind that the words beside the kind name, and where its name begins and ends."""
    before = [*re.finditer(r"[\w.-]+", text[: match.start()])][-BESIDE:]
    after = [*re.finditer(r"[\w-]+", text[match.end() :])][:BESIDE]
    for word, start, end in _spans_beside(before, after, match):
        known = [document for document in documents if word.casefold() in _plain_words(document)]
        known = known or [document for document in documents if set(terms(word, "en")) & titles[document]]
        if len(known) == 1:
            return known, start, end
    return [], match.start(), match.end()


def _spans_beside(
    before: Sequence[re.Match[str]], after: Sequence[re.Match[str]], match: re.Match[str]
) -> Iterator[tuple[str, int, int]]:
    for word in reversed(before):
        yield word[0], word.start(), match.end()
    for word in after:
        yield word[0], match.start(), match.end() + word.end()


def _spaced(document: str) -> str:
    return re.sub(r"[_-]|(?<=[^\W\d_])(?=\d)|(?<=\d)(?=[^\W\d_])", " ", _EXTENSION.sub("", document))


def _plain_words(document: str) -> frozenset[str]:
    return frozenset(_spaced(document).casefold().split())


def _name_terms(document: str, language: str) -> list[str]:
    return terms(_spaced(document), language)


def _is_compound(first: str, second: str) -> bool:
    """Return whether one word ends with the other, as `Mietvertrag` and `Vertrag` do."""
    short, long = sorted((first.casefold(), second.casefold()), key=len)
    return len(short) >= SHORTEST_PART and long.endswith(short)
