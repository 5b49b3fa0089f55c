"""The roles, actions, models and commands of PowerOn.

`execute_unified_workflow(request)` is the entry point from Python; it is imported when it is first used,
so that the commands start fast.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from poweron_services.standalone import execute_unified_workflow

__all__ = ["execute_unified_workflow"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from poweron_services import standalone  # noqa: PLC0415 - see above

        return getattr(standalone, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
