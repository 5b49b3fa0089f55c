"""What passages mean: answers in other words and languages than the question's, and who turns texts into vectors."""
# ruff: noqa: RUF001 - letters of other scripts are what this is about

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from pytest_httpserver import HTTPServer
from test_call import process
from werkzeug import Response

from poweron_events.errors import Unavailable
from poweron_services.models.builtin import BuiltinModel
from poweron_services.models.builtin.passage_search import Finding, PassageSearch
from poweron_services.models.builtin.passages import build_library
from poweron_services.models.builtin.vocabulary import language_of
from poweron_services.models.embedding import local_embedder
from poweron_services.models.embedding.embedder import Embedder, Remembering, Vector, nearness
from poweron_services.models.embedding.local_embedder import packaged_embedder
from poweron_services.models.prompts import SourceText
from poweron_services.models.providers.embedding_endpoint import EmbeddingEndpoint
from poweron_services.settings.config import Settings

ANSWERS = Path(__file__).parents[3] / "answers"
pytestmark = pytest.mark.req("C-04")
needs_package = pytest.mark.skipif(packaged_embedder() is None, reason="there is no package for this machine")


class Counting:
    """A text is near another as far as they have letters in common."""

    name = "letters"
    near = None

    def __init__(self) -> None:
        self.asked: list[str] = []

    def question(self, text: str) -> Vector:
        return [float(letter in text.casefold()) for letter in "abcdefghijklmnopqrstuvwxyz"]

    def passages(self, texts: Sequence[str]) -> list[Vector]:
        self.asked += texts
        return [self.question(text) for text in texts]


class Away(Counting):
    def question(self, text: str) -> Vector:
        raise Unavailable("It is away.", code="model_unavailable")


def found(question: str, document: str, embedder: Embedder | None) -> Finding:
    language = language_of(question)
    text = (ANSWERS / document).read_text(encoding="utf-8")
    held = build_library((SourceText(document, document, text),), language)
    (finding,) = PassageSearch(held, language, embedder).findings(question)
    return finding


async def answer(question: str, text: str, embedder: Embedder | None) -> str:
    return (await BuiltinModel(embedder).complete(replace(process(text), ai_prompt=question))).text


@needs_package
@pytest.mark.parametrize(
    ("question", "document", "said"),
    [
        ("Wie viele Leute können höchstens mitkommen?", "wanderung.md", "24 Personen"),
        ("Que dois-je payer si je perds un livre ?", "bibliotheque.md", "prix d'achat"),
        ("电脑丢了打什么电话？", "yuangong.md", "8800"),
        ("タバコは吸えますか？", "ryokan.md", "全面禁煙"),
        ("على من فاتورة الكهرباء؟", "ijar.md", "على المستأجر"),
    ],
)
def test_what_is_said_in_other_words_is_the_answer(question: str, document: str, said: str) -> None:
    assert not found(question, document, None).statements
    (statement,) = found(question, document, packaged_embedder()).statements
    assert said in statement.text


@needs_package
@pytest.mark.parametrize(
    ("question", "document"), [("Wo übernachten wir?", "wanderung.md"), ("公司有多少员工？", "yuangong.md")]
)
def test_what_a_document_does_not_say_is_not_claimed(question: str, document: str) -> None:
    assert found(question, document, packaged_embedder()).statements == ()


@needs_package
def test_the_table_of_answers_is_answered_as_its_page_says() -> None:
    asks = [json.loads(line) for line in (ANSWERS / "questions.jsonl").read_text(encoding="utf-8").splitlines()]
    answered = [(ask, found(ask["prompt"], ask["document"], packaged_embedder())) for ask in asks]
    said = [(ask.get("contains"), "; ".join(one.text for one in finding.statements)) for ask, finding in answered]
    shown = [(ask["contains"], finding) for ask, finding in answered if "contains" in ask]
    assert sum(wanted is not None and wanted in text for wanted, text in said) >= 88
    assert sum(bool(text) for wanted, text in said if wanted is None) <= 1
    assert sum(any(wanted in one.text for one in (*each.statements, *each.closest)) for wanted, each in shown) >= 112


@needs_package
async def test_what_has_nothing_to_do_with_the_question_is_not_shown() -> None:
    said = await answer(
        "Who was the first person on the moon?",
        "The rent is 1,450 francs.\n\nThe cellar is dry.\n",
        packaged_embedder(),
    )
    assert said == 'The documents do not say: "Who was the first person on the moon"'


@needs_package
async def test_a_house_number_is_not_answered_with_what_holds_no_address() -> None:
    said = await answer(
        "Welche Hausnummer hat die Volkshochschule?",
        "Annegret Dörfler leitet die Volkshochschule seit 2019.\n\nDie Anmeldung endet im September.\n",
        packaged_embedder(),
    )
    assert said.startswith("Diese Stellen kommen der Frage")


@needs_package
async def test_nothing_is_denied_where_something_is_near() -> None:
    text = "The museum was founded in 1974 with a gift of the family Bahar.\n\nIt is closed on Mondays.\n"
    said = await answer("Since which year does the museum exist?", text, packaged_embedder())
    assert "do not say" not in said
    assert "founded in 1974" in said


async def test_an_embedder_that_is_away_is_done_without_which_the_answer_says() -> None:
    text = "Rent: 1,450 francs\n"
    said = await answer("Who is the caretaker?", text, Away())
    assert said.endswith("> Only words were compared, not what they mean: what is said in other words may be missed.")
    assert "1,450" in await answer("How much is the rent?", text, Away())


async def test_a_call_tells_whether_vectors_were_compared() -> None:
    prompt = process("Rent: 1,450 francs")
    model = BuiltinModel(Counting())
    known = await model.complete(replace(prompt, ai_prompt="How much is the rent?"))
    unknown = await model.complete(replace(prompt, ai_prompt="Who is the caretaker?"))
    assert (known.model, unknown.model) == ("extractive-1", "extractive-1+letters")


def test_of_many_passages_those_are_compared_that_share_words_or_pieces_of_them() -> None:
    sentences = [f"Sentence number {number} is about nothing at all." for number in range(400)]
    text = "\n\n".join([*sentences, "The caretakers live upstairs."])
    embedder = Counting()
    PassageSearch(build_library((SourceText("a", "a", text),), "en"), "en", embedder).findings("Who is our caretaker?")
    assert len(embedder.asked) <= 150
    assert "The caretakers live upstairs." in embedder.asked


def test_a_passage_is_embedded_once() -> None:
    inner = Counting()
    embedder = Remembering(inner)
    assert embedder.passages(["a", "b", "a"]) == inner.passages(["a", "b", "a"])
    embedder.passages(["b", "c"])
    assert inner.asked == ["a", "b", "a", "b", "a", "c"]


@needs_package
def test_vectors_are_of_length_one_whatever_the_text_holds() -> None:
    embedder = packaged_embedder()
    assert embedder is not None
    for vector in embedder.passages(["", "\0", "\ud800", "x" * 100_000, "一" * 5_000, *["word"] * 40]):
        assert nearness(vector, vector) == pytest.approx(1, abs=1e-3)


@needs_package
def test_another_version_of_the_package_is_not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_embedder, "HASHES", {**local_embedder.HASHES, local_embedder.WEIGHTS: "0" * 64})
    local_embedder.packaged_embedder.cache_clear()
    embedder = local_embedder.packaged_embedder()
    local_embedder.packaged_embedder.cache_clear()
    assert embedder is not None
    with pytest.raises(Unavailable):
        embedder.question("Who?")


# --- a server


@pytest.fixture
def endpoint(httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch) -> EmbeddingEndpoint:
    monkeypatch.setenv("OPENAI_BASE_URL", httpserver.url_for("/v1"))
    return EmbeddingEndpoint("openai", "embed-small")


def test_a_server_is_asked_for_the_vectors_of_texts(httpserver: HTTPServer, endpoint: EmbeddingEndpoint) -> None:
    entries = [{"index": 1, "embedding": [0, 2]}, {"index": 0, "embedding": [3, 4]}]
    httpserver.expect_request("/v1/embeddings", json={"model": "embed-small", "input": ["a", "b"]}).respond_with_json(
        {"data": entries}
    )
    assert endpoint.passages(["a", "b"]) == [[0.6, 0.8], [0.0, 1.0]]
    assert endpoint.name == "openai:embed-small"


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ("no json", 200),
        ("{}", 200),
        ('{"data": []}', 200),
        ('{"data": [{"index": 0, "embedding": [0, 0]}]}', 200),
        ('{"data": [{"index": 0, "embedding": ["a"]}]}', 200),
        ('{"error": "wrong key"}', 401),
        ("", 500),
    ],
)
def test_a_server_that_gives_none_is_unavailable(
    httpserver: HTTPServer, endpoint: EmbeddingEndpoint, said: str, status: int
) -> None:
    httpserver.expect_request("/v1/embeddings").respond_with_response(Response(said, status))
    with pytest.raises(Unavailable, match="openai:embed-small gave no embeddings"):
        endpoint.question("a")


@pytest.mark.parametrize("wrong", ["e5", "anthropic:x", "openai", "openai:", ""])
def test_an_embedder_must_be_one(wrong: str) -> None:
    with pytest.raises(ValueError, match="is no embedder"):
        Settings(embeddings=wrong)
