"""What is unavailable is tried again, after longer and longer pauses."""

import pytest

from poweron_events import retry as module
from poweron_events.errors import Conflict, Refused, Unavailable
from poweron_events.retry import Backoff, Failure, retry


class Failing:
    """Fails with these errors, one after the other; then answers 42."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.failures: list[Failure] = []

    async def __call__(self) -> int:
        if self.errors:
            raise self.errors.pop(0)
        return 42


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(module, "LONGEST_PAUSE", 0.004)


async def test_what_is_unavailable_is_tried_until_it_answers() -> None:
    failing = Failing(*[Unavailable("down")] * 4)
    assert await retry(failing, failed=failing.failures.append) == 42
    assert [failure.tries for failure in failing.failures] == [1, 2, 3, 4]
    assert [failure.pause for failure in failing.failures] == [0.001, 0.002, 0.004, 0.004]
    assert [failure.lasts for failure in failing.failures] == [False, False, True, True]


async def test_who_says_for_how_long_it_is_unavailable_is_not_asked_before_and_never_more_often_than_others() -> None:
    failing = Failing(*[Unavailable("busy", retry_after=seconds) for seconds in (0.0, 0.02, 0.0)])
    assert await retry(failing, failed=failing.failures.append) == 42
    assert [failure.pause for failure in failing.failures] == [0.001, 0.02, 0.004]


async def test_an_error_that_does_not_pass_by_itself_is_raised() -> None:
    failing = Failing(Unavailable("down"), Refused("no"))
    with pytest.raises(Refused):
        await retry(failing, failed=failing.failures.append)


async def test_who_retries_says_after_which_errors() -> None:
    failing = Failing(Conflict("somebody else"), KeyError("a bug"))
    assert await retry(failing, failed=failing.failures.append, on=(Conflict, KeyError)) == 42


async def test_whoever_is_told_of_a_failure_can_give_up() -> None:
    def give_up(failure: Failure) -> None:
        raise Refused("too often") from failure.error

    with pytest.raises(Refused, match="too often"):
        await retry(Failing(Unavailable("down")), failed=give_up)


async def test_it_is_tried_only_while_it_is_needed() -> None:
    failing = Failing(*[Unavailable("down")] * 9)
    answer = await retry(failing, failed=failing.failures.append, needed=lambda: len(failing.failures) < 3)
    assert answer is None
    assert len(failing.failures) == 3


def test_pauses_grow_up_to_the_longest() -> None:
    backoff = Backoff(first=1.0, longest=3.0)
    assert [backoff.next() for _ in range(4)] == [1.0, 2.0, 3.0, 3.0]
