"""The claims of a bundle of several workflows: those of each workflow, and those of the period that they are from."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from poweron_projections.audit.checkpoint import Checkpoint
from poweron_projections.audit.merkle_tree import is_consistent
from poweron_projections.audit.notes import SignedNote
from poweron_projections.audit.verifier.bundle_claims import (
    BundleClaim,
    CheckpointClaims,
    Verification,
    file_lines,
)
from poweron_projections.audit.verifier.period_rules import (
    PeriodEntry,
    PeriodWorkflow,
    entered,
    entries_within,
    grown_tree,
    list_lines,
    listed_workflows,
    sample_of,
    wrong_bounds,
)
from poweron_projections.audit.verifier.strict_json import parsed

WORKFLOWS: Final = "workflows/"
PERIOD: Final = "period/period.json"


class CollectionVerification(CheckpointClaims):
    """The claims of a bundle of several workflows."""

    @cached_property
    def workflows(self) -> Mapping[str, Verification]:
        """The verification of each workflow, by its id."""
        parts = dict[str, dict[str, bytes]]()
        for path, data in self.files.items():
            if path.startswith(WORKFLOWS):
                workflow_id, _, rest = path[len(WORKFLOWS) :].partition("/")
                parts.setdefault(workflow_id, {})[rest] = data
        return {workflow_id: Verification(files, self.trust) for workflow_id, files in sorted(parts.items())}

    @property
    def is_ok(self) -> bool:
        """Whether every claim holds that the auditor asked for, of every workflow, too."""
        return self.are_claims_ok and all(each.is_ok for each in self.workflows.values())

    def run(self) -> None:
        """Check every claim; a failed one does not keep the others from being checked."""
        self.check("V1", self.wrong_files)
        for workflow_id, each in self.workflows.items():
            each.run()
            if each.workflow_id not in (None, workflow_id):
                self.claims.append(BundleClaim("V1", "fail", f"{WORKFLOWS}{workflow_id} is about another workflow"))
        if PERIOD in self.files:
            self.check("V6", self.unsigned)
            self.check("V7", self.unwitnessed)
            self.check("V9", self.inconsistent)
            self.check("V15", lambda: self._another_period() or self._incomplete() or self._others_here())
            self.check("V16", self._drawn_otherwise)
        elif self.trust.period is not None:
            self.claims.append(BundleClaim("V15", "fail", "the bundle is about no period"))

    @cached_property
    def note(self) -> SignedNote:
        """The checkpoint that signs the period, with its signatures."""
        return SignedNote.parse(self.files["period/checkpoint"].decode())

    @cached_property
    def period(self) -> Any:
        """What the bundle says about the period."""
        return parsed(self.files[PERIOD])

    @cached_property
    def _entries(self) -> Sequence[PeriodEntry]:
        return [entered(line) for line in file_lines(self.files["period/entries.jsonl"])]

    @cached_property
    def listed(self) -> Sequence[PeriodWorkflow]:
        """The workflows of the period, as its entries say."""
        since, until, begin = (self.period[name] for name in ("since", "until", "begin"))
        return listed_workflows(entries_within(self._entries, since_ms=since, until_ms=until, begin=begin))

    @cached_property
    def _root(self) -> bytes:
        """The root of the ledger at the end of the period."""
        edge = [bytes.fromhex(each) for each in self.period["edge"]]
        return grown_tree(self.period["begin"], edge, (entry.line for entry in self._entries)).root

    @cached_property
    def sampled(self) -> Sequence[str]:
        """The workflows that the sample has, or all of the period."""
        ids = [each.workflow_id for each in self.listed]
        if self.period["sample"] is None:
            return ids
        return sample_of(ids, root=self._root, seed=self.period["seed"], size=self.period["sample"])

    def _another_period(self) -> str:
        asked = self.trust.period
        if asked is None or (asked.since_ms, asked.until_ms) == (self.period["since"], self.period["until"]):
            return ""
        return "the bundle is about another period than the one that you named"

    def _incomplete(self) -> str:
        """Return why the entries are not all those of the period."""
        period, checkpoint = self.period, Checkpoint.parse(self.note.text)
        begin, end = period["begin"], period["begin"] + len(self._entries)
        path = [bytes.fromhex(each) for each in period["consistency"]]
        if not is_consistent(end, self._root, checkpoint.size, checkpoint.root, path):
            return "the entries are not those of the ledger that was signed"
        entries = [entry.values for entry in self._entries]
        return wrong_bounds(entries, since_ms=period["since"], until_ms=period["until"], begin=begin)

    def _others_here(self) -> str:
        """Return which workflows are not those that the entries list, or not as they are there."""
        told = [parsed(line) for line in file_lines(self.files["period/workflows.jsonl"])]
        if told != list(list_lines(self.listed, self.sampled)):
            return "the list is not that of the entries"
        if missing := {*self.sampled} - {*self.workflows}:
            return f"workflow {min(missing)} should be in the bundle, and is not"
        for each in self.listed:
            leaves = self.workflows[each.workflow_id].leaves if each.workflow_id in self.workflows else None
            if leaves is not None and (len(leaves) <= each.last or leaves[each.last].hex() != each.leaf):
                return f"workflow {each.workflow_id} of the bundle is not that of the period"
        return ""

    def _drawn_otherwise(self) -> str | BundleClaim:
        asked, period = self.trust.period, self.period
        if asked is not None and asked.seed is not None:
            drawn = (period["sample"], period["seed"])
            if drawn[0] != asked.sample:
                return f"you asked for {asked.sample}, and it has {'all' if drawn[0] is None else drawn[0]}"
            return "" if drawn[1] == asked.seed else "it was drawn with another text"
        if period["sample"] is None:
            return BundleClaim("V16", "not_checked", "it is no sample: all workflows of the period are here")
        return BundleClaim("V16", "not_checked", "say what you asked for: --since, --until, --sample and --seed")

    def blobs_by_state(self) -> Counter[str]:
        """Return how many contents of all workflows are present, withheld, erased and missing."""
        return Counter(state for each in self.workflows.values() for state in each.blobs.values())
