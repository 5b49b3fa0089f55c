"""What `poweron status` finds wrong: told to people at once, and to programs with its code at the end."""

from typing import Any

from poweron_events.codes import Code
from poweron_services.cli.output import tell


class Problems(list[tuple[str, Code]]):
    """Sentences with their codes, the first of which a program gets as `error` and `code`."""

    def report(self, message: str, code: Code, style: str = "") -> None:
        """Tell a person, and keep it."""
        tell(message, style=style)
        self.append((message, code))

    def as_object(self) -> dict[str, Any]:
        """The first problem; nothing where there is none."""
        return {"error": self[0][0], "code": self[0][1]} if self else {}
