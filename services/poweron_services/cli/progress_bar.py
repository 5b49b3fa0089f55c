"""Progress bars on stderr for interactive use: how far long work is, and how long the rest will take."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import aclosing, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

from poweron_events.client import Heard
from poweron_events.fold.state import Workflow
from poweron_events.log import ProgressTopic
from poweron_events.progress import StepProgress
from poweron_events.task_cancellation import cancel_task
from poweron_services.cli.context import AS_JSON
from poweron_services.cli.output import stderr
from poweron_services.client.follow import amount, amount_of, follow_progress, step_words, tells_of_step

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID
from typing import Any, Final

from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn
from rich.text import Text

OnProgress = Callable[[int, int], None]
"""Called with the number done, and the total."""


def watched() -> bool:
    """Return whether a user is watching stderr, rather than a program reading JSON."""
    return not AS_JSON.get() and stderr.is_terminal and not stderr.is_dumb_terminal


@contextmanager
def bar(title: str, unit: str) -> Generator[OnProgress, None, None]:
    """Show a bar for work that reports its own progress; show none if no user is watching."""
    if not watched():
        yield lambda _, __: None
        return
    from poweron_services.cli.progress_bar import open_bars  # noqa: PLC0415 - slow to import, and rarely needed

    with open_bars() as bars:
        task = bars.add_task(title, total=None, count="")

        def report(done: int, total: int) -> None:
            bars.update(task, completed=done, total=total, count=amount(done, total, unit))

        yield report


class StepBar:
    """The bar of the running step; the events of the workflow say when it begins and ends."""

    def __init__(self) -> None:
        self._workflow: Workflow | None = None
        self._bars: Progress | None = None
        self._shown: TaskID | None = None
        self._at: tuple[object, ...] = ()

    def heard(self, record: Heard) -> None:
        """Take an event of the workflow, which may end the step that is shown."""
        self._workflow = record.workflow
        if self._at and self._at != _at(record.workflow):
            self.hide()

    def told(self, progress: StepProgress) -> bool:
        """Show the progress of the running step; return False for progress of any other step, which is not shown."""
        if self._workflow is None or not tells_of_step(progress, self._workflow):
            return False
        if self._bars is None:
            self._at = _at(self._workflow)
            from poweron_services.cli.progress_bar import open_bars  # noqa: PLC0415 - as above

            self._bars = open_bars()
            self._shown = self._bars.add_task(step_words(progress.task, progress.step), total=None, count="")
            self._bars.start()
        assert self._shown is not None
        total = None if progress.total is None else max(progress.total, progress.done)
        self._bars.update(self._shown, completed=progress.done, total=total, count=amount_of(progress))
        return True

    def hide(self) -> None:
        bars, self._bars, self._shown, self._at = self._bars, None, None, ()
        if bars is not None:
            bars.stop()


def _at(workflow: Workflow) -> tuple[object, ...]:
    at_work = workflow.is_open and workflow.phase == "started"
    return (workflow.place, len(workflow.step.starts)) if at_work else ()


class ProgressWatch:
    """Follows the progress of one workflow once its id is known, if a user is watching."""

    def __init__(self, topic: ProgressTopic) -> None:
        self.bar = StepBar()
        self._topic = topic
        self._following: asyncio.Task[None] | None = None

    def begin(self, workflow_id: str, on_report: Callable[[], object] = lambda: None) -> None:
        """Follow this workflow from now on; `on_report` is called whenever the running step reports progress."""
        if watched() and self._following is None:
            self._following = asyncio.get_running_loop().create_task(self._follow(workflow_id, on_report))

    async def _follow(self, workflow_id: str, on_report: Callable[[], object]) -> None:
        async with aclosing(follow_progress(self._topic, workflow_id)) as following:
            async for progress in following:
                if self.bar.told(progress):
                    on_report()

    async def end(self) -> None:
        self.bar.hide()
        if self._following is not None:
            await cancel_task(self._following)


@asynccontextmanager
async def watching_progress(topic: ProgressTopic) -> AsyncGenerator[ProgressWatch, None]:
    """Show progress inside this context, once the workflow is known."""
    watch = ProgressWatch(topic)
    try:
        yield watch
    finally:
        await watch.end()


WIDTH: Final = 20  # columns of the bar, so that the whole line fits in 80
COUNTED_WITHIN: Final = 30.0  # seconds over which the speed is estimated


class _Remaining(ProgressColumn):
    """The estimated time left, in words; the time elapsed if the total is unknown."""

    max_refresh = 0.5

    def render(self, task: Any) -> Text:
        if task.total is None:
            return Text(f"after {_duration(int(task.elapsed or 0))}", style="dim")
        left = task.time_remaining if task.remaining else None
        return Text("" if left is None else f"about {_duration(int(left))} left", style="dim")


def _duration(seconds: int) -> str:
    if seconds < 60:
        return f"{seconds} s"
    hours, minutes = divmod(seconds // 60, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {seconds % 60:02} s"


def open_bars() -> Progress:
    """Create bars that disappear when they are done; lines printed on stderr meanwhile appear above them."""
    return Progress(
        TextColumn("{task.description}", style="dim", markup=False),
        BarColumn(bar_width=WIDTH),
        TextColumn("{task.fields[count]}", markup=False),
        _Remaining(),
        console=stderr,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
        refresh_per_second=4,
        speed_estimate_period=COUNTED_WITHIN,
    )
