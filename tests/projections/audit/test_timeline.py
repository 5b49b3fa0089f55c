"""The timeline of a bundle says at a glance who asked, answered and decided, and where the quotes of answers are from."""

from collections.abc import Mapping
from typing import Any

import pytest

from poweron_projections.audit.verifier.bundle_timeline import timeline_html, timeline_items, timeline_markdown

LEASE, PAGE, ANSWER, UNSEEN = "a" * 64, "b" * 64, "c" * 64, "d" * 64
CONTENTS = {
    LEASE: b"## Rent\n\nThe rent is **900 euro**\na month. The deposit is\n2700 euro. Dogs are allowed, cats are not.",
    PAGE: b"Hunde sind\nerlaubt.",
}
ADA = {"id": "ada", "via": "door", "verified": True}
BOB = {"id": "bob", "via": "cli", "verified": False}
GIVEN = {"documentName": "lease.txt", "mimeType": "text/plain", "size": 70, "content": LEASE}
SCANNED = {"documentName": "scan.pdf", "mimeType": "application/pdf", "size": 9, "content": UNSEEN}
WRITTEN = {
    "documentName": "answer.md",
    "mimeType": "text/markdown",
    "size": 9,
    "content": ANSWER,
    "byModel": True,
    "sources": [{"n": 1, "page": {"url": "https://example.org/dogs", "sha256": "e" * 64}, "text": PAGE}],
}
CALL = {"provider": "openai", "model": "small", "inputTokens": 90, "outputTokens": 10, "costNanoUsd": 2_000_000}
FAILED_CALLS = {"count": 3, "inputTokens": 7, "usageEstimated": True}
STEP = {"round": 1, "task": 1, "step": 1}
REQUEST = {"source": "/crm", "id": "1"}

Part = tuple[str, Mapping[str, Any]] | tuple[str, Mapping[str, Any], str]


def items(*parts: Part, contents: Mapping[str, bytes] = CONTENTS) -> list[Any]:
    """The items of the timeline of these events, each a type, its data and, unless it was accepted, its verdict."""
    events, entries = list[Any](), list[Any]()
    for seq, (kind, data, *verdict) in enumerate(parts):
        events.append({"type": f"poweron.{kind}.v1", "source": "/poweron/intake/host-1", "data": data})
        entries.append({"seq": seq, "verdict": verdict[0] if verdict else "accepted", "time": 1_800_000_000_000 + seq})
    return list(timeline_items(events, entries, contents))


def timeline(*parts: Part, contents: Mapping[str, bytes] = CONTENTS) -> str:
    return timeline_markdown("w", items(*parts, contents=contents))


def summary(*parts: Part) -> list[str]:
    """The lines of the summary, without time and markup."""
    facts = items(*parts)[0].facts
    return [f"{name}: {value.partition(' UTC, ')[2] or value}" for name, value in facts]


def test_a_summary_says_who_asked_and_answered_what_was_done_and_how_it_ended() -> None:
    assert summary(
        ("workflow.requested", {"round": 1, "prompt": "May I keep a dog?", "actor": ADA, "documents": [GIVEN]}),
        ("selection.rejected", {"round": 1, "modelCall": CALL, "failedCalls": [FAILED_CALLS]}),
        ("action.selected", {"round": 1, "modelCall": CALL}),
        ("approval.granted", STEP | {"actor": BOB, "request": REQUEST}),
        ("action.started", STEP | {"action": "web.search"}),
        ("action.completed", STEP | {"outcome": "done", "documents": [WRITTEN]}),
        ("action.started", STEP | {"action": "web.search"}, "superseded"),
        ("action.started", STEP | {"step": 2, "action": "mail.send"}),
        ("action.completed", STEP | {"step": 2, "outcome": "denied"}),
        ("round.cancelled", {"round": 1, "message": "Ended.", "documents": [WRITTEN, WRITTEN | {"content": UNSEEN}]}),
        ("workflow.retained", {"hold": "case-7", "actor": ADA}),
        ("content.erased", {"documents": ["r1d1"], "reason": "They asked.", "legalBasis": "GDPR Art. 17"}),
        ("content.erased", {"actor": ADA}),
        ("workflow.exported", {"actor": BOB, "format": "bundle", "reason": "Audit 2026."}),
    ) == [
        "Requested: round 1, ada (door, verified): May I keep a dog?",
        "Approval given: round 1 task 1 step 1, bob (cli, not verified)",
        "Cancelled: round 1: Ended.",
        "Retention changed: ada (door, verified), on hold case-7",
        "Content erased: documents r1d1, on the basis of GDPR Art. 17: They asked.",
        "Content erased: ada (door, verified), all content",
        "Exported: bob (cli, not verified), as bundle: Audit 2026.",
        "Documents handed over: lease.txt",
        "Documents written: answer.md, answer.md",
        "Actions: mail.send denied (1), web.search done (1)",
        "Rejected: selections (1)",
        "Failed calls: 3, with 7 tokens and 0.000000 US dollars, partly estimated",
        "Calls of openai:small: 2, with 200 tokens and 0.004000 US dollars",
        "Events without effect: superseded (1)",
    ]


def test_a_summary_says_what_a_fork_took_over_and_what_no_person_decided() -> None:
    assert summary(
        ("workflow.requested", {"round": 1, "forkedFrom": {"workflow": "other", "seq": 7}}),
        ("action.started", STEP | {"action": "web.search"}),
        ("action.completed", STEP | {"outcome": "done", "reusedFrom": 5}),
        (
            "action.selected",
            {"round": 1, "modelCall": CALL | {"provider": "recorded", "inputTokens": 0, "costNanoUsd": 0}},
        ),
        ("approval.denied", STEP),
        ("budget.granted", {"round": 1, "tokens": 500}),
        ("budget.granted", {"round": 1, "costNanoUsd": 1_000_000, "actor": ADA, "request": REQUEST}),
    ) == [
        "Requested: round 1, forked from other at event 7",
        "Approval not given in time: round 1 task 1 step 1",
        "Budget of another day begun: round 1, 500 tokens",
        "Larger budget granted: round 1, ada (door, verified), 0.001000 US dollars",
        "Actions: web.search taken over (1)",
        "Calls taken over from the forked workflow: 1, with 10 tokens and 0.000000 US dollars",
    ]


def test_an_event_says_what_was_asked_declared_and_cited() -> None:
    text = timeline(
        ("action.selected", {"parametersSchema": {"fields": [{"name": "query", "type": "string"}]}}),
        ("action.started", {"toolSha256": "f" * 64, "modelCall": {"promptRef": LEASE, "answerRef": UNSEEN}}),
        ("content.erased", {"documents": ["r1d2"]}),
        ("workflow.requested", {"documents": [GIVEN, SCANNED]}),
        ("action.completed", {"documents": [WRITTEN], "unread": [{"reason": "b.pdf is locked."}]}),
    )
    for line in (
        "- Parameters asked for: `query (string)`",
        f"- SHA-256 of the tool as it was declared: `{'f' * 64}`",
        "- Not read completely: `b.pdf is locked.`",
        "- Erased: `documents r1d2`",
        f"- Document: `lease.txt (70 bytes, blobs/{LEASE})`",
        "- Document: `scan.pdf (9 bytes, not in this bundle)`",
        f"Prompt (blobs/{LEASE}):",
        f"blobs/{UNSEEN} is not in this bundle: it was erased, or left out",
        f"- Source of it: `[1] https://example.org/dogs, fetched None, SHA-256 {'e' * 64}, its text blobs/{PAGE}`",
    ):
        assert line in text.splitlines()


NOWHERE = "in none of the 2 texts that were searched; not searched: scan.pdf"


@pytest.mark.parametrize(
    ("answer", "place"),
    [
        ("“The rent is 900 euro a month.” — lease.txt", "word for word in lease.txt"),
        ('"the rent is 900 Euro … the deposit is 2700 euro"', "word for word in lease.txt"),
        ("„Hunde sind erlaubt.“ [1]", "word for word in https://example.org/dogs"),
        ("“The rent is 950 euro.”", NOWHERE),
        ("“The rent is 90”", NOWHERE),
        ("“not … allowed”", NOWHERE),
        ("Nothing says „may I keep a dog“.", "word for word in the request"),
        ("The rent is 900 euro.", None),
    ],
)
def test_each_quote_of_an_answer_is_searched_once(answer: str, place: str | None) -> None:
    text = timeline(
        ("workflow.requested", {"prompt": "May I keep a dog?", "documents": [GIVEN, SCANNED]}),
        ("action.completed", {"documents": [WRITTEN]}),
        ("round.completed", {"documents": [WRITTEN]}),
        contents={**CONTENTS, ANSWER: answer.encode()},
    )
    quotes = [line.partition("” is ")[2].rstrip("`") for line in text.splitlines() if line.startswith("- Quote: ")]
    assert quotes == ([] if place is None else [place])


def test_no_event_without_effect_vouches_for_a_quote() -> None:
    forged = GIVEN | {"documentName": "contract.txt", "content": ANSWER}
    text = timeline(
        ("workflow.requested", {"documents": [forged, WRITTEN]}, "superseded"),
        ("action.completed", {"documents": [WRITTEN]}),
        ("round.completed", {"documents": [forged]}),
        contents={ANSWER: "“Fully invented words.”".encode()},
    )
    assert ("word for word" in text, text.count("is in none of the 0 texts")) == (False, 1)


def test_data_of_any_form_has_a_timeline() -> None:
    odd: dict[str, Any] = {
        "documents": ["x", {"sources": [{"page": 5}], "page": 1, "content": [7], "byModel": True, "mimeType": 3}],
        "tasks": 3,
        "unread": [None],
        "parametersSchema": {"fields": "x"},
        "modelCalls": [{"costNanoUsd": "x", "inputTokens": None, "promptRef": [1]}],
        "failedCalls": [{"count": 1.5}],
        "tokens": "many",
        "actor": [],
    }
    kinds = ("workflow.requested", "round.completed", "content.erased", "action.completed", "budget.granted")
    assert "workflow requested" in timeline(*((kind, odd) for kind in kinds), ("new.kind", odd, "unknown"))


def test_no_text_in_an_event_is_markup_of_the_timeline() -> None:
    image = "![a](http://example.org/a.png)\n## 9. approval granted\n<script>"
    data = {"documents": [{"documentName": image, "sources": [{"n": image, "page": {"url": image}, "text": UNSEEN}]}]}
    page = timeline_html("w", items(("round.completed", data)))
    assert ("<script" in page, "&lt;script&gt;" in page) == (False, True)
    lines = timeline(("round.completed", data)).splitlines()
    assert [line for line in lines if "![" in line and "`![a]" not in line and "`[![a]" not in line] == []
    assert [line for line in lines if line.startswith("## 9.")] == []
