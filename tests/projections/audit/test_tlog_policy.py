"""Policies in the format C2SP `tlog-policy`: what is one, and which witnesses are enough."""

import pytest

from poweron_projections.audit.note_signatures import SigningKey
from poweron_projections.audit.notes import ED25519, ED25519_COSIGNATURE, Algorithm
from poweron_projections.audit.tlog_policy import InvalidPolicy, TlogPolicy


def _vkey(name: str, kind: Algorithm = ED25519_COSIGNATURE) -> str:
    return str(SigningKey(name, kind, name.encode().ljust(32, b"\0")).public)


LOG = _vkey("log.example", ED25519)
X1, X2, X3, Y1, Y2 = (_vkey(name) for name in ("x1", "x2", "x3", "y1", "y2"))
TWO_LEVELS = f"""# The example of the specification.
log {LOG} https://log.example/

witness X1 {X1} https://x1.example/
 \twitness\tX2   {X2}
witness X3 {X3}
group X-witnesses 2 X1 X2 X3
witness Y1 {Y1}
witness Y2 {Y2}
  # Another comment.
group Y-witnesses any Y1 Y2
group X-and-Y all X-witnesses Y-witnesses
quorum X-and-Y
"""


def test_a_quorum_is_met_through_groups_of_groups() -> None:
    policy = TlogPolicy.parse(TWO_LEVELS.encode())
    x1, x2, x3, y1, y2 = policy.keys
    assert [str(key) for key in policy.logs] == [LOG]
    assert [policy.witnesses[name].url for name in ("X1", "X2")] == ["https://x1.example/", None]
    assert all(map(policy.is_met_by, ([x1, x2, y1], [x2, x3, y2], policy.keys)))
    assert not any(map(policy.is_met_by, ([], [x1, y1, y2], [x1, x2, x3], [y1, y2])))


def test_a_quorum_can_be_one_witness_or_none() -> None:
    one = TlogPolicy.parse(f"witness X1 {X1}\nquorum X1".encode())
    assert (one.is_met_by(one.keys), one.is_met_by([])) == (True, False)
    none = TlogPolicy.parse(b"quorum none\n")
    assert (none.keys, none.is_met_by([])) == ([], True)


@pytest.mark.parametrize(
    "text",
    [
        "",
        f"witness X1 {X1}\n",
        "quorum X1\n",
        f"quorum X1\nwitness X1 {X1}\n",
        "quorum none\nquorum none\n",
        "quorum\n",
        "quorum none none\n",
        "quora none\n",
        f"log {X1[:-4]}\nquorum none\n",
        f"log {LOG} https://log.example extra\nquorum none\n",
        f"log {LOG}\nlog {LOG}\nquorum none\n",
        f"witness X1 {LOG}\nquorum X1\n",
        f"witness none {X1}\nquorum none\n",
        f"witness X1 {X1}\nwitness X1 {X2}\nquorum X1\n",
        f"witness X1 {X1}\nwitness X2 {X1}\nquorum X1\n",
        f"witness X1 {X1}\ngroup X1 any X1\nquorum X1\n",
        f"witness X1 {X1}\ngroup G 2 X1\nquorum G\n",
        f"witness X1 {X1}\ngroup G 0 X1\nquorum G\n",
        f"witness X1 {X1}\ngroup G 01 X1\nquorum G\n",
        f"witness X1 {X1}\ngroup G some X1\nquorum G\n",
        f"witness X1 {X1}\ngroup G all\nquorum G\n",
        f"witness X1 {X1}\ngroup G any none\nquorum G\n",
        f"witness X1 {X1}\ngroup G 2 X1 X1\nquorum G\n",
        f"witness X1 {X1}\ngroup G any X1\ngroup H any X1\nquorum G\n",
        f"group G any X1\nwitness X1 {X1}\nquorum G\n",
        f"witness X1 {X1}\r\nquorum X1\n",
        f"witness X1\u00a0{X1}\nquorum X1\n",
    ],
)
def test_what_is_no_policy_is_refused(text: str) -> None:
    with pytest.raises(InvalidPolicy):
        TlogPolicy.parse(text.encode())
