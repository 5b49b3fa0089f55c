"""Two readers of one process decode and judge a record once, and get what each would get alone."""

from histories import histories
from hypothesis import given, settings

from builders import Told, planned, requested
from poweron_events import topics
from poweron_events.codec import Undecodable
from poweron_events.fold.evolve import evolve
from poweron_events.fold.state import Workflow
from poweron_events.log import Message, Record
from poweron_events.log.memory import MemoryLog
from poweron_projections.fold_cache import FoldCache

TOLD = Told().tell(requested(), planned())


def written(messages: list[Message]) -> list[Record]:
    log = MemoryLog()
    for message in messages:
        log.write(topics.EVENTS.name, message.key, message.value)
    return [record for partition in log._topics[topics.EVENTS.name] for record in partition]


@settings(max_examples=20)
@given(histories())
def test_both_readers_get_the_verdicts_of_the_fold(messages: list[Message]) -> None:
    fold = FoldCache()
    fold.share(3)
    states: list[dict[str, Workflow]] = [{}, {}, {}]
    for record in written(messages):
        for reader, workflows in enumerate(states):
            recorded = fold.read(record)
            if isinstance(recorded, Undecodable):
                continue
            name = recorded.envelope.workflow_id
            before = workflows.get(name) or Workflow(name)
            after, verdict = evolve(before, recorded)
            if reader:
                assert fold.judge(before, recorded) == (before, after, verdict)
                after = fold.judge(before, recorded)[1]
            workflows[name] = after


def test_a_record_is_judged_once_for_all_who_were_at_the_same_place() -> None:
    fold = FoldCache()
    fold.share(10)
    first, second = written(TOLD.messages)
    recorded = fold.read(first)
    assert not isinstance(recorded, Undecodable)
    assert fold.read(first._replace()) is recorded
    judgement = fold.judge(Workflow(TOLD.id), recorded)
    assert fold.judge(Workflow(TOLD.id), recorded) is judgement
    other = Workflow(TOLD.id)._replace(seq=5)
    assert fold.judge(other, recorded)[0] is other
    changed = second._replace(offset=first.offset)
    assert fold.read(changed) is not recorded


def test_a_process_with_one_reader_remembers_nothing() -> None:
    fold = FoldCache()
    record = written(TOLD.messages)[0]
    assert fold.read(record) is not fold.read(record)
