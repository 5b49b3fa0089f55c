"""JSON and CSV of `ai.process`: a model is held to a schema, and what it says is read without the schema's form."""

import csv
import io
import json
import random
from dataclasses import replace
from typing import Any, get_args

import pytest
from constrained import Constrained
from hypothesis import given
from hypothesis import strategies as st
from test_call import WORKFLOW, process

from poweron_events.content import ContentStore
from poweron_services.actions.output_formats import OUTPUT_SCHEMAS, unfolded_output, written
from poweron_services.models.call import Called, Caller
from poweron_services.models.chat_model import Completion
from poweron_services.models.prompts import OutputFormat, ProcessPrompt, Prompt
from poweron_services.models.providers.schema_dialects import told
from poweron_services.settings.config import Provider

cells = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\0"))


class Saying:
    """A model that gives these answers in turn."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.asked: list[Prompt] = []

    async def complete(self, prompt: Prompt) -> Completion:
        self.asked.append(prompt)
        return Completion(self.answers.pop(0), "test", "saying", 10, 5)


async def output(model: Any, output_format: OutputFormat) -> str:
    caller = Caller(model, ContentStore.at("memory:///"))

    async def ask(prompt: Prompt) -> Called:
        return await caller.call(WORKFLOW, prompt)

    text, _ = await written(ask, replace(process("The total is 42."), output_format=output_format))
    return text


@pytest.mark.parametrize("provider", get_args(Provider))
def test_what_a_constrained_model_writes_is_of_the_format(provider: Provider) -> None:
    for seed in range(30):
        model = Constrained(provider, random.Random(seed))
        value = model.value(told(OUTPUT_SCHEMAS["json"], provider).schema)
        assert json.loads(unfolded_output(json.dumps(value), "json")) == value["output_json"]
        table = model.value(told(OUTPUT_SCHEMAS["csv"], provider).schema)
        rows = [row for row in (table["columns"], *table["rows"]) if row]
        text = unfolded_output(json.dumps(table), "csv")
        assert [row for row in csv.reader(io.StringIO(text)) if row] == rows


@given(
    table=st.integers(1, 4).flatmap(lambda wide: st.lists(st.lists(cells, min_size=wide, max_size=wide), min_size=1))
)
def test_whatever_stands_in_a_cell_the_table_is_the_same_as_csv(table: list[list[str]]) -> None:
    said = json.dumps({"columns": table[0], "rows": table[1:]})
    assert [*csv.reader(io.StringIO(unfolded_output(said, "csv"), newline=""))] == table


@given(
    value=st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53), 2**53) | cells,
        lambda inner: st.lists(inner) | st.dictionaries(cells, inner),
    )
)
def test_json_that_was_asked_for_is_taken_as_it_is_within_the_schemas_member_or_by_itself(value: Any) -> None:
    assert json.loads(unfolded_output(json.dumps({"output_json": value}), "json")) == value
    for said in ({"answer": value}, {"output_json": value, "more": 1}, [value]):
        assert unfolded_output(json.dumps(said), "json") == json.dumps(said)


def test_a_line_break_that_stands_in_a_text_as_it_is_becomes_the_escape_that_json_wants() -> None:
    assert json.loads(unfolded_output('{"place": "Hall 2\nPort Alden"}', "json")) == {"place": "Hall 2\nPort Alden"}


@pytest.mark.parametrize("said", ['{"columns": ["a"], "rows": [[1]]}', '{"columns": "a", "rows": []}', "[]", "a,b"])
def test_what_is_no_table_of_the_schema_stands_as_it_is(said: str) -> None:
    assert unfolded_output(said, "csv") == said


async def test_rows_of_other_lengths_are_asked_for_once_more() -> None:
    model = Saying('{"columns": ["a", "b"], "rows": [["1"]]}', '{"columns": ["a", "b"], "rows": [["1", "2, 3"]]}')
    assert await output(model, "csv") == 'a,b\n1,"2, 3"\n'
    (_, again) = model.asked
    assert isinstance(again, ProcessPrompt)
    assert again.problem == "The output is not valid CSV: its rows differ in their number of cells."


async def test_other_formats_are_held_to_no_schema() -> None:
    model = Saying('{"output_json": 1}')
    assert await output(model, "markdown") == '{"output_json": 1}'
    assert model.asked[0].answer_schema is None
