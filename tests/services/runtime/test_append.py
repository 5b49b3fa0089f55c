"""What stands in the log where an event cannot be written: one that can, and says why."""

from typing import Any

import pytest

from builders import Told, completed, planned, requested, reviewed, step
from poweron_events.codec import decode
from poweron_services.runtime.append import EventWriter


@pytest.mark.req("L-10")
@pytest.mark.parametrize("unwritable", [{"told": "half a character: \ud800"}, {"message": "\ud800"}])
def test_an_ending_that_cannot_be_written_is_one_that_can_whatever_is_wrong_with_it(unwritable: dict[str, str]) -> None:
    workflow = Told().tell(requested(), planned(), *step(), reviewed()).workflow
    writer = EventWriter(instance="w1", now_ms=lambda: 0, traced=False)
    ending = completed().model_copy(update=unwritable)
    (record,) = writer.write("reviewer", workflow, [ending])
    written: Any = decode(record.message.value).event
    assert written.TYPE == "poweron.round.completed.v1"
    assert (written.told, written.message[:27]) == (None, "The round has ended, but wh")
