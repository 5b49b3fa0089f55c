"""Runs the simulation from the command line.

uv run python tests/simulation/soak.py --seeds 10000 [--first 0] [--bug "last wins"]
uv run python tests/simulation/soak.py --seed 7 --trace
"""

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from simulation.runner import outcomes, table
from simulation.world import Outcome

MOST_FLAGS, MOST_DETAIL = 3, 500  # of a seed, characters


def main() -> int:
    given = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given.add_argument("--seeds", type=int, default=2_000, help="how many worlds")
    given.add_argument("--first", type=int, default=0, help="the first seed")
    given.add_argument("--seed", type=int, help="only this one")
    given.add_argument(
        "--trace", action="store_true", help="print all that happened in each world that failed, or in --seed"
    )
    given.add_argument("--bug", help="plant this bug first")
    asked = given.parse_args()
    seeds = range(asked.first, asked.first + asked.seeds) if asked.seed is None else [asked.seed]
    return _run(seeds, asked.bug, trace=asked.trace)


def _run(seeds: "range | list[int]", bug: str | None, *, trace: bool) -> int:
    began, struck, kinds, failed, records = time.monotonic(), Counter[str](), Counter[str](), 0, 0
    for outcome in outcomes(seeds, bug=bug, traced=trace):
        struck += outcome.struck
        records += outcome.records
        failed += bool(outcome.flags)
        kinds.update({name for name, _ in outcome.flags})
        if outcome.flags or (trace and len(seeds) == 1):
            _tell(outcome, trace=trace)
    took = time.monotonic() - began
    _say(table(struck))
    _say(f"{len(seeds):,} seeds, {records:,} records, {took:.1f} s, {len(seeds) / took:.1f} seeds/s")
    _say(f"{failed} seeds failed: {dict(kinds)}" if failed else "Every law held.")
    return 1 if failed else 0


def _tell(outcome: Outcome, *, trace: bool) -> None:
    if trace:
        _say("\n".join(outcome.trace))
    for name, detail in outcome.flags[:MOST_FLAGS]:
        _say(f"seed {outcome.seed}: {name} {detail[:MOST_DETAIL]}")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
