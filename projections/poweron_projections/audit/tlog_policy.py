"""Policies (C2SP `tlog-policy`): the logs and witnesses that count, and which witnesses must have cosigned."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from poweron_projections.audit.notes import ED25519, InvalidNote, VerifierKey

NO_QUORUM: Final = "none"
_CONTROL: Final = re.compile(r"[^\t\n\x20-\x7e\x80-\U0010ffff]")
_THRESHOLD: Final = re.compile(r"[1-9][0-9]{0,5}")
_FIELDS: Final = {"log": (1, 2), "witness": (2, 3), "group": (3, 1_000), "quorum": (1, 1)}
"""The least and the largest number of words after each keyword."""


class InvalidPolicy(ValueError):
    """The text is no policy; the message names the line."""


class PolicyWitness(NamedTuple):
    """A witness: its key and, if it can be asked, the URL before `/add-checkpoint`."""

    key: VerifierKey
    url: str | None


class WitnessGroup(NamedTuple):
    """A group counts as a witness if at least this many of its members do."""

    threshold: int
    members: Sequence[str]


@dataclass(frozen=True)
class TlogPolicy:
    """The logs, the witnesses and groups by their names, and the name of what must have cosigned."""

    logs: Sequence[VerifierKey]
    witnesses: Mapping[str, PolicyWitness]
    groups: Mapping[str, WitnessGroup]
    quorum: str

    @classmethod
    def parse(cls, data: bytes) -> "TlogPolicy":
        """Read a policy; raise InvalidPolicy if it is none."""
        reader = _PolicyReader()
        for number, line in enumerate(data.decode(errors="surrogateescape").split("\n"), 1):
            try:
                reader.read(line)
            except ValueError as error:
                raise InvalidPolicy(f"Line {number} of the policy: {error}") from error
        if reader.quorum is None:
            raise InvalidPolicy("The policy has no line `quorum`.")
        return cls(reader.logs, reader.witnesses, reader.groups, reader.quorum)

    @property
    def keys(self) -> list[VerifierKey]:
        """The keys of all witnesses."""
        return [witness.key for witness in self.witnesses.values()]

    def is_met_by(self, cosigners: Collection[VerifierKey]) -> bool:
        """Return whether these witnesses are enough."""
        return self.quorum == NO_QUORUM or self._counts(self.quorum, cosigners)

    def _counts(self, name: str, cosigners: Collection[VerifierKey]) -> bool:
        if name in self.witnesses:
            return self.witnesses[name].key in cosigners
        threshold, members = self.groups[name]
        return sum(self._counts(member, cosigners) for member in members) >= threshold


class _PolicyReader:
    """Reads the lines of a policy, each of which can only name what was defined before."""

    def __init__(self) -> None:
        self.logs: list[VerifierKey] = []
        self.witnesses: dict[str, PolicyWitness] = {}
        self.groups: dict[str, WitnessGroup] = {}
        self.quorum: str | None = None
        self._members: set[str] = set()

    def read(self, line: str) -> None:
        if _CONTROL.search(line):
            raise ValueError("it has a control character")
        keyword, *words = [word for word in re.split(r"[ \t]+", line) if word] or ["#"]
        if keyword.startswith("#"):
            return
        if keyword not in _FIELDS:
            raise ValueError(f"{keyword!r} is none of log, witness, group and quorum")
        least, most = _FIELDS[keyword]
        if not least <= len(words) <= most:
            raise ValueError(f"`{keyword}` has {len(words)} words after it")
        if keyword == "log":
            self.logs.append(_new_key(words[0], self.logs, of_log=True))
        elif keyword == "witness":
            key = _new_key(words[1], [each.key for each in self.witnesses.values()], of_log=False)
            self.witnesses[self._new_name(words[0])] = PolicyWitness(key, words[2] if len(words) > 2 else None)
        elif keyword == "group":
            self._read_group(*words)
        elif self.quorum is not None:
            raise ValueError("there is a second line `quorum`")
        else:
            self.quorum = words[0] if words[0] == NO_QUORUM else self._defined(words[0])

    def _read_group(self, name: str, threshold: str, *members: str) -> None:
        for member in members:
            if self._defined(member) in self._members:
                raise ValueError(f"{member!r} is a member already")
            self._members.add(member)
        least = {"any": "1", "all": str(len(members))}.get(threshold, threshold)
        if not _THRESHOLD.fullmatch(least) or int(least) > len(members):
            raise ValueError(f"{threshold!r} is no number of its {len(members)} members")
        self.groups[self._new_name(name)] = WitnessGroup(int(least), members)

    def _new_name(self, name: str) -> str:
        if name == NO_QUORUM or name in self.witnesses or name in self.groups:
            raise ValueError(f"the name {name!r} has a meaning already")
        return name

    def _defined(self, name: str) -> str:
        if name not in self.witnesses and name not in self.groups:
            raise ValueError(f"no line before defines {name!r}")
        return name


def _new_key(vkey: str, earlier: Collection[VerifierKey], *, of_log: bool) -> VerifierKey:
    """Read the key of a log or a witness, which no other line may have."""
    try:
        key = VerifierKey.parse(vkey)
    except InvalidNote as error:
        raise ValueError(str(error)) from error
    if key.public in {each.public for each in earlier}:
        raise ValueError(f"the key of {key.name!r} occurs twice")
    if not of_log and key.algorithm == ED25519:
        raise ValueError(f"the key of {key.name!r} is that of a log, not of a witness")
    return key
