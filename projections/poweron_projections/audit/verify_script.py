"""The script `verify.py`: the modules that verify a bundle, joined to one file for Python 3.10 or newer."""

import re
from collections import defaultdict
from functools import cache
from importlib import resources
from typing import Final

MODULES: Final = (
    "merkle_tree",
    "checkpoint",
    "notes",
    "tlog_policy",
    "tlog_proof",
    "verifier/strict_json",
    "verifier/ed25519",
    "verifier/cosignatures",
    "verifier/answer_rules",
    "verifier/workflow_fold",
    "verifier/second_fold",
    "verifier/key_announcements",
    "verifier/bundle_files",
    "verifier/event_facts",
    "verifier/quote_search",
    "verifier/answer_quotes",
    "verifier/timeline_summary",
    "verifier/bundle_timeline",
    "verifier/period_rules",
    "verifier/bundle_claims",
    "verifier/period_claims",
    "verifier/verify_command",
)
"""Each needs only those before it; their names differ, so they can share one namespace."""

_OURS: Final = re.compile(r"^from poweron_projections[^\n(]*(\([^)]*\)|[^\n]*)\n", re.MULTILINE)
_IMPORT: Final = re.compile(r"^(?:from ([a-z0-9_.]+) )?import ([^\n]*)\n", re.MULTILINE)
_DOCSTRING: Final = re.compile(r'\A("""[^"]*""")\n')


@cache
def verify_script() -> str:
    """Return the script; the same release always makes the same one."""
    names, parts, title = defaultdict[str, set[str]](set), list[str](), ""
    for module in MODULES:
        source = resources.files(__package__).joinpath(f"{module}.py").read_text(encoding="utf-8")
        documented = _DOCSTRING.match(source)
        assert documented is not None
        title = documented[1]
        body = _OURS.sub("", source[documented.end() :])
        for origin, imported in _IMPORT.findall(body):
            names[origin].update(imported.split(", "))
        parts.append(f"# {module.rpartition('/')[2]}\n\n{_IMPORT.sub('', body).strip()}")
    modules = [f"import {name}\n" for name in sorted(names.pop(""))]
    imports = [f"from {origin} import {', '.join(sorted(imported))}\n" for origin, imported in sorted(names.items())]
    head = f"{title}\n\nfrom __future__ import annotations\n\n{''.join([*modules, *imports])}"
    return head + "".join(f"\n\n{part}\n" for part in parts)
