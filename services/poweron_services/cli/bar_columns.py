"""What a bar shows: what is done, how many of how many, and about how long the rest takes."""

from typing import Any, Final

from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn
from rich.text import Text

from poweron_services.cli.output import stderr

WIDTH: Final = 20  # columns of the bar: all of a line fits in 80
COUNTED_WITHIN: Final = 30.0  # seconds over which it is reckoned how long the rest takes


class _Remaining(ProgressColumn):
    """How long the rest takes, in words; where nobody knows how much there is, how long it has taken."""

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
    """Bars that go once they are done; what is printed on stderr meanwhile stands above them."""
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
