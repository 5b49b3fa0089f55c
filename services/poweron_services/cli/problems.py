"""The problems that `poweron status` finds: printed to users at once, and to programs as JSON at the end."""

from typing import Any

from poweron_events.codes import Code
from poweron_services.cli.output import tell


class Problems(list[tuple[str, Code]]):
    """Sentences with their codes; programs get the first as `error` and `code`."""

    def report(self, message: str, code: Code, style: str = "") -> None:
        """Print the problem to the user, and keep it."""
        tell(message, style=style)
        self.append((message, code))

    def as_object(self) -> dict[str, Any]:
        """Return the first problem; empty if there is none."""
        return {"error": self[0][0], "code": self[0][1]} if self else {}
