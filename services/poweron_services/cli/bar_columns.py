"""The columns of a progress bar: the work, the bar, the count, and the estimated time left."""

from typing import Any, Final

from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn
from rich.text import Text

from poweron_services.cli.output import stderr

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
