"""What the Python that runs PowerOn costs: one that was built without optimisations needs much more CPU time."""

import sys
import sysconfig

UNOPTIMISED = (
    "This Python ({where}) was built without optimisations: PowerOn takes about {cost} times the CPU time. "
    "`uv sync --python 3.13` fetches one that was built with them; so are those of Debian, Ubuntu and python.org."
)
COST = 1.4  # measured with two builds of 3.11, see docs/performance.md


def interpreter_advice() -> str:
    """Return a sentence about an interpreter that was built without optimisations, or ""."""
    return "" if is_optimised() else UNOPTIMISED.format(where=sys.executable, cost=COST)


def is_optimised() -> bool:
    """Return whether the build was guided by a profile, which a build from source is only if it is configured so.

    Debian runs the steps of such a build itself, and its Makefile names no flag for them.
    """
    arguments, flag = sysconfig.get_config_var("CONFIG_ARGS"), sysconfig.get_config_var("PGO_PROF_USE_FLAG")
    return arguments is None or "--enable-optimizations" in arguments or not flag
