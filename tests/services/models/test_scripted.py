"""The scripted model: says its lines in order, the last one again and again."""

from pathlib import Path

import pytest
from doubles import script

from builders import Told, requested
from poweron_events.catalog import CATALOG
from poweron_events.errors import Refused, Unavailable
from poweron_services.models.scripted import ScriptedModel
from poweron_services.roles.planner import generate_planning_prompt

PROMPT = generate_planning_prompt(Told().tell(requested()).workflow, CATALOG)


async def test_lines_come_in_order_and_the_last_is_repeated() -> None:
    model = ScriptedModel(script(planning=["one", {"two": 2}, lambda prompt: type(prompt).__name__]))
    said = [(await model.complete(PROMPT)).text for _ in range(4)]
    assert said == ["one", '{"two":2}', "PlanningPrompt", "PlanningPrompt"]
    assert list(model.asked) == [PROMPT] * 4


async def test_an_error_in_the_script_is_raised() -> None:
    with pytest.raises(Unavailable, match="busy"):
        await ScriptedModel(script(planning=[Unavailable("busy")])).complete(PROMPT)


async def test_a_script_is_read_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "script.json").write_text('{"PlanningPrompt": ["one"]}')
    assert (await ScriptedModel.from_file(str(tmp_path / "script.json")).complete(PROMPT)).text == "one"


@pytest.mark.parametrize("text", ["", "[]", '{"NoPrompt": []}'])
def test_a_file_that_is_no_script_is_refused_with_what_it_must_be(tmp_path: Path, text: str) -> None:
    (tmp_path / "script.json").write_text(text)
    with pytest.raises(Refused, match="It must be a JSON object of lists"):
        ScriptedModel.from_file(str(tmp_path / "script.json"))
