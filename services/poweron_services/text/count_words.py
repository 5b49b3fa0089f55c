"""Numbers of things in words."""


def counted(count: int, thing: str) -> str:
    """Format a number of things, such as “1 step” or “2 steps”."""
    return f"{count} {thing}{'' if count == 1 else 's'}"
