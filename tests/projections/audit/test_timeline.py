"""The timeline of a bundle says at a glance who asked, answered and decided, and where the quotes of answers are from."""

from collections.abc import Mapping
from typing import Any

import pytest

from poweron_projections.audit.verifier.bundle_timeline import timeline_html, timeline_items, timeline_markdown

LEASE, PAGE, ANSWER, UNSEEN = "a" * 64, "b" * 64, "c" * 64, "d" * 64
CONTENTS = {
    LEASE: b"## Rent\n\nThe rent is **900 euro**\na month. The deposit is\n2700 euro.",
    PAGE: b"Hunde sind\nerlaubt.",
}
ADA = {"id": "ada", "via": "door", "verified": True}
GIVEN = {"documentName": "lease.txt", "mimeType": "text/plain", "size": 70, "content": LEASE}
WRITTEN = {
    "documentName": "answer.md",
    "mimeType": "text/markdown",
    "size": 9,
    "content": ANSWER,
    "byModel": True,
    "sources": [{"n": 1, "page": {"url": "https://example.org/dogs", "sha256": "e" * 64}, "text": PAGE}],
}


def timeline(*events: tuple[str, Mapping[str, Any]], contents: Mapping[str, bytes] = CONTENTS) -> str:
    """The timeline of these accepted events, as Markdown."""
    told = [{"type": f"poweron.{kind}.v1", "source": "/poweron/intake/host-1", "data": data} for kind, data in events]
    entries = [{"seq": seq, "verdict": "accepted", "time": 1_800_000_000_000 + seq} for seq in range(len(told))]
    return timeline_markdown("w", list(timeline_items(told, entries, contents)))


def test_a_summary_says_who_asked_and_answered_what_was_done_and_how_it_ended() -> None:
    call = {"provider": "openai", "model": "small", "inputTokens": 90, "outputTokens": 10, "costNanoUsd": 2_000_000}
    text = timeline(
        ("workflow.requested", {"round": 1, "prompt": "May I keep a dog?", "actor": ADA, "documents": [GIVEN]}),
        ("selection.rejected", {"round": 1, "modelCall": call}),
        (
            "action.selected",
            {"round": 1, "modelCall": call, "parametersSchema": {"fields": [{"name": "query", "type": "string"}]}},
        ),
        ("approval.granted", {"round": 1, "task": 1, "step": 1, "actor": ADA | {"id": "bob", "verified": False}}),
        ("action.started", {"round": 1, "action": "web.search", "toolSha256": "f" * 64}),
        (
            "action.completed",
            {"round": 1, "outcome": "done", "documents": [WRITTEN], "unread": [{"reason": "b.pdf is locked."}]},
        ),
        ("round.completed", {"round": 1, "message": "Yes, dogs are allowed.", "documents": [WRITTEN]}),
        ("workflow.retained", {"hold": "case-7", "actor": ADA}),
    )
    summary = text.partition("## 0.")[0]
    for line in (
        "- Requested: `2027-01-15 08:00:00.000 UTC, round 1, ada (door, verified): May I keep a dog?`",
        "- Approved: `2027-01-15 08:00:00.003 UTC, round 1 task 1 step 1, bob (door, not verified)`",
        "- Completed: `2027-01-15 08:00:00.006 UTC, round 1: Yes, dogs are allowed.`",
        "- Retention changed: `2027-01-15 08:00:00.007 UTC, ada (door, verified), on hold case-7`",
        "- Documents handed over: `lease.txt`",
        "- Documents written: `answer.md`",
        "- Actions begun: `web.search (1)`",
        "- Actions ended: `done (1)`",
        "- Rejected: `selections (1)`",
        "- Model: `openai:small: 2 calls, 200 tokens, 0.004000 US dollars`",
    ):
        assert line in summary.splitlines()
    assert "- Parameters asked for: `query (string)`" in text
    assert f"- SHA-256 of the tool as it was declared: `{'f' * 64}`" in text
    assert "- Not read completely: `b.pdf is locked.`" in text
    assert (
        f"- Source [1] of it: `https://example.org/dogs, fetched None, SHA-256 {'e' * 64}, text in blobs/{PAGE}`"
        in text
    )


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ("“The rent is 900 euro a month.” — lease.txt", "lease.txt"),
        ("“the rent is … 2700 Euro”", "lease.txt"),
        ("„Hunde sind erlaubt.“ [1]", "https://example.org/dogs"),
        ("“The rent is 950 euro.”", "in no text of this bundle"),
        ("The rent is 900 euro.", None),
    ],
)
def test_each_quote_of_an_answer_is_searched_word_for_word_once(answer: str, found: str | None) -> None:
    requested = ("workflow.requested", {"documents": [GIVEN]})
    ended = [(kind, {"documents": [WRITTEN]}) for kind in ("action.completed", "round.completed")]
    text = timeline(requested, *ended, contents={**CONTENTS, ANSWER: answer.encode()})
    quotes = [line for line in text.splitlines() if line.startswith("- Quote: ")]
    assert [line.rpartition(" word for word in: ")[2] for line in quotes] == ([] if found is None else [f"{found}`"])


def test_data_of_any_form_has_a_timeline() -> None:
    odd: dict[str, Any] = {
        "documents": ["x", {"sources": [{"page": 5}], "page": 1, "content": 7, "byModel": True}],
        "tasks": 3,
        "unread": [None],
        "parametersSchema": {"fields": "x"},
        "modelCall": "x",
        "actor": [],
    }
    assert "workflow requested" in timeline(("workflow.requested", odd), ("round.completed", odd))


def test_no_name_in_an_event_is_markup_of_the_page() -> None:
    data = {
        "documents": [
            {"sources": [{"n": "1\n## 9. approval granted\n<script>", "page": {"url": "<b>"}, "text": UNSEEN}]}
        ]
    }
    event = {"type": "poweron.round.completed.v1", "source": "/poweron/intake/host-1", "data": data}
    assert "\n## 9." not in timeline(("round.completed", data))
    page = timeline_html("w", list(timeline_items([event], [{"seq": 0, "verdict": "accepted", "time": 0}], {})))
    assert ("<script" in page, "<b>" in page, "&lt;script&gt;" in page) == (False, False, True)
