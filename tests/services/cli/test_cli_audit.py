"""`poweron audit`: what it prints about the ledger, and with which code it ends."""

import stat
from pathlib import Path

import orjson
import pytest
from typer.testing import CliRunner

from poweron_projections.audit.full_verification import FullVerification
from poweron_projections.audit.ledger import LedgerAlarm
from poweron_projections.audit.ledger_status import LedgerStatus
from poweron_projections.audit.ledger_verification import LedgerClaim
from poweron_projections.audit.note_signatures import SigningKey
from poweron_projections.audit.notes import ED25519
from poweron_services.cli import ledger_commands
from poweron_services.cli.main import app
from poweron_services.client.audit_status import AuditStatus, last_verified, note_verified
from poweron_services.settings.config import Settings
from poweron_services.settings.ledger_keys import known_ledger_keys, ledger_keys, retired_ledger_keys

STATUS = LedgerStatus(
    entries=1_234,
    lag_records=2,
    lag_ms=1_500,
    checkpoint_size=1_200,
    checkpoint_age_seconds=8,
    witness_age_seconds=None,
    quorum_met=None,
    rejects=1,
    repeated=0,
    erased=3,
    projection_lag=0,
    last_verified=None,
)
KEYS = [
    *("entries", "lagRecords", "lagMs", "checkpointSize", "checkpointAgeSeconds", "witnessAgeSeconds", "quorumMet"),
    *("rejects", "repeated", "erased", "projectionLag", "lastVerified"),
]


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("POWERON_HOME", str(tmp_path))
    return tmp_path


def told(
    monkeypatch: pytest.MonkeyPatch, *options: str, alarm: LedgerAlarm | None = None, beyond: tuple[str, ...] = ()
) -> tuple[int, str, str]:
    """Exit code and output of `audit status`, if the ledger was like this."""

    async def status(_: Settings) -> tuple[AuditStatus, bool]:
        return AuditStatus(STATUS, alarm, [*beyond]), False

    monkeypatch.setattr(ledger_commands, "_audit_status", status)
    done = CliRunner().invoke(app, ["audit", "status", *options])
    return done.exit_code, done.stdout, done.stderr


def test_the_status_is_readable_and_its_json_has_these_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    code, output, hint = told(monkeypatch)
    assert (code, "`poweron serve` enters what waits" in hint) == (0, True)
    assert output.splitlines() == [
        "Ledger: 1,234 entries; 2 records not entered yet, the oldest for 1.5 s.",
        "Checkpoint: of 1,200 entries, signed 8 s ago.",
        "Witnesses: none are configured (POWERON_LEDGER_POLICY).",
        "Rows: complete.",
        "Rejected records: 1. Repeated entries: 0. Erasures: 3.",
        "Everything verified on this machine: never.",
    ]
    assert [*orjson.loads(told(monkeypatch, "--json")[1])] == KEYS


def test_an_alarm_or_a_value_beyond_its_limit_ends_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    code, output, errors = told(monkeypatch, "--json", alarm=LedgerAlarm("Records were lost."))
    assert (code, orjson.loads(output)["alarm"]) == (1, "Records were lost.")
    assert "Alarm: Records were lost." in errors
    assert told(monkeypatch, beyond=("lagMs",))[0] == 1


@pytest.mark.parametrize(
    ("status", "code", "verdict"), [("ok", 0, "ok"), ("not_checked", 0, "ok"), ("fail", 1, "fail")]
)
def test_everything_is_verified_like_a_bundle(
    monkeypatch: pytest.MonkeyPatch, status: str, code: int, verdict: str
) -> None:
    async def verified(*_: object, reading: bool) -> FullVerification:
        readings.append(reading)
        claim = LedgerClaim("V9", status, "because")
        return FullVerification([claim], "example.com/poweron", 1_790_000_000_000, events=7, size=9, foreign=1)

    readings: list[bool] = []
    monkeypatch.setattr(ledger_commands, "_verify_everything", verified)
    key = str(SigningKey("example.com/poweron", ED25519, bytes(32)).public)
    done = CliRunner().invoke(app, ["audit", "verify", "--key", key, "--json"])
    assert (done.exit_code, orjson.loads(done.stdout)) == (
        code,
        {
            "verdict": verdict,
            "origin": "example.com/poweron",
            "asOf": "2026-09-21T14:13:20.000Z",
            "events": 7,
            "claims": [
                {
                    "id": "V9",
                    "name": "The ledger continues the older checkpoints that you hold",
                    "status": status,
                    "detail": "because",
                }
            ],
        },
    )
    text = CliRunner().invoke(app, ["audit", "verify", "--key", key, "--content"]).stdout
    assert readings == [False, True]
    assert "7 events in 9 entries, last signed 2026-09-21T14:13:20.000Z." in text
    done = CliRunner().invoke(app, ["audit", "verify"])
    assert (done.exit_code, "`poweron audit key`" in done.stderr) == (2, True)
    done = CliRunner().invoke(app, ["audit", "verify", "--key", key, "--since", "2026-01-01"])
    assert (done.exit_code, "are about a bundle: name it" in " ".join(done.stderr.split())) == (2, True)


def test_a_new_key_comes_before_the_old_one_and_keeps_the_name_of_the_ledger(home: Path) -> None:
    settings = Settings(home=home)
    assert known_ledger_keys(settings) == []
    old = ledger_keys(settings)
    done = CliRunner().invoke(app, ["audit", "rotate", "--json"])
    new = ledger_keys(settings)
    assert (done.exit_code, orjson.loads(done.stdout)) == (0, {"keys": [str(key.public) for key in new]})
    assert retired_ledger_keys(settings) == [old]
    assert {key.name for key in (*old, *new)} == {old[0].name}
    assert new[0].seed != old[0].seed
    assert stat.S_IMODE((home / "ledger.key").stat().st_mode) == 0o600
    assert [file.name for file in home.iterdir()] == ["ledger.key"]
    assert known_ledger_keys(settings) == [*new, *old]


def test_a_key_in_the_settings_is_rotated_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POWERON_LEDGER_KEY", f"{'ab' * 32} {'cd' * 32}")
    assert [pair[0].seed for pair in (ledger_keys(Settings()), *retired_ledger_keys(Settings()))] == [
        b"\xab" * 32,
        b"\xcd" * 32,
    ]
    done = CliRunner().invoke(app, ["audit", "rotate"])
    assert (done.exit_code, "POWERON_LEDGER_KEY='NEW OLD'" in " ".join(done.stderr.split())) == (1, True)


def test_when_everything_was_verified_is_remembered(home: Path) -> None:
    settings = Settings(home=home)
    assert last_verified(settings) is None
    note_verified(settings, size=7, now_ms=1_790_000_000_000)
    assert last_verified(settings) == "2026-09-21T14:13:20.000Z"
