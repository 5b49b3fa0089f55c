"""Bugs to be planted."""

from collections.abc import Callable, Mapping

BUGS: Mapping[str, Callable[[], None]] = {}
