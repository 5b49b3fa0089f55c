"""A bundle proves the history of a workflow, and every forgery of it is caught by the claim that is made for it."""

import hashlib
import random
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest
from forger import Files, body_edited, chained, changed, edited, entered, lines, with_manifest
from ledgers import KEYS, NOW_MS, WITNESS_KEYS, NearWitness, enter_all, witness_in, write
from tables import wipe

from builders import (
    Told,
    cancellation,
    completed,
    document,
    follow_up,
    identity,
    planned,
    requested,
    reviewed,
    step,
    typical,
)
from poweron_events import topics
from poweron_events.actor import Actor
from poweron_events.archive_events import ContentErased
from poweron_events.content import ContentStore
from poweron_events.content_references import content_fields
from poweron_events.event import Model, WebPage
from poweron_events.log.memory import MemoryLog
from poweron_events.round_events import RoundCancelled, Totals
from poweron_events.stream import REQUESTS, WORKFLOW_EVENTS
from poweron_projections.audit.bundle import NotSigned, bundle_of
from poweron_projections.audit.checkpoint import Checkpoint
from poweron_projections.audit.ledger_check import LedgerAlarm
from poweron_projections.audit.ledger_role import begun_ledger
from poweron_projections.audit.ledger_tree import stored_inclusion_proof, stored_root
from poweron_projections.audit.ledger_witnesses import LedgerWitnesses
from poweron_projections.audit.merkle_tree import node_hash
from poweron_projections.audit.note_signatures import SigningKey, is_signed_by
from poweron_projections.audit.notes import ED25519, SignedNote
from poweron_projections.audit.tlog_policy import TlogPolicy
from poweron_projections.audit.tlog_proof import TlogProof
from poweron_projections.audit.verifier.bundle_claims import CONTENT_FIELDS, NAMES, Trust, Verification
from poweron_projections.audit.verifier.cosignatures import is_ed25519_line, lines_of
from poweron_projections.audit.verifier.verify_command import main
from poweron_projections.audit.verify_script import verify_script
from poweron_projections.connection import Pool, acquire
from poweron_projections.verify import catch_up

VKEY = KEYS[0].public
TWO_ROUNDS = Told("two rounds").tell(requested("two rounds"), planned(), *step(1), reviewed(), completed())
FIRST_ROUND = len(TWO_ROUNDS.values)
TWO_ROUNDS.tell(follow_up(2, "3"), planned(1, 2))


def failed(files: Mapping[str, bytes], **trust: Any) -> set[str]:
    """The claims that do not hold."""
    verification = Verification(
        files, Trust(**{"key": VKEY, "allow_withheld": True, "now_s": lambda: NOW_MS / 1000 + 60, **trust})
    )
    verification.run()
    found = {claim.id for claim in verification.claims if claim.status == "fail"}
    assert verification.is_ok == (not found)
    return found


@pytest.fixture
async def ledger(log: MemoryLog, pool: Pool) -> None:
    """A ledger of three workflows, signed twice."""
    write(log, typical("1"))
    await enter_all(log, pool)
    write(log, TWO_ROUNDS, typical("other"))
    await enter_all(log, pool)


@pytest.fixture
async def files(ledger: None, pool: Pool) -> Files:
    return await bundle_of(pool, None, TWO_ROUNDS.id, [str(VKEY)])


async def test_a_bundle_of_every_workflow_holds(ledger: None, pool: Pool) -> None:
    for told in (typical("1"), TWO_ROUNDS, typical("other")):
        files = await bundle_of(pool, None, told.id, [str(VKEY)])
        assert failed(files) == set()
        assert lines(files, "events") == told.values


async def test_each_forgery_is_caught_by_its_claim(files: Files) -> None:
    events, entries = lines(files, "events"), lines(files, "entries")
    forged = body_edited(files, 3)
    assert failed(changed(files, events=forged)) == {"V3", "V11", "V12"}
    assert "V4" in failed(changed(files, events=forged, entries=entered(forged, entries, 3)))
    assert "V5" in failed(changed(files, events=forged, entries=chained(entered(forged, entries, 3))))
    without = changed(files, events=[*events[:3], *events[4:]], entries=[*entries[:3], *entries[4:]])
    assert "V4" in failed(without)
    assert {"V5", "V12"} <= failed(changed(files, entries=chained(entries, _superseded)))


def _superseded(place: int, entry: dict[str, Any]) -> None:
    if place == 2:
        entry["verdict"] = "superseded"


@pytest.mark.parametrize("left", [FIRST_ROUND, len(TWO_ROUNDS.values) - 1])
async def test_a_cut_tail_is_caught_by_the_heads_alone(files: Files, pool: Pool, left: int) -> None:
    proof = TlogProof.parse(files["head.tlog-proof"].decode())
    size = TlogProof.parse(files["heads/entry.tlog-proof"].decode()).leaf_index + 1
    async with acquire(pool) as connection:
        query = "SELECT place FROM ledger_entries WHERE workflow_id = $1::uuid AND seq = $2"
        place = await connection.fetchval(query, TWO_ROUNDS.id, left - 1)
        genuine = TlogProof(place, await stored_inclusion_proof(connection, place, size), proof.checkpoint)
    cut = {**files, "head.tlog-proof": str(genuine).encode()}
    told = {"events": lines(files, "events")[:left], "entries": lines(files, "entries")[:left]}
    assert failed(changed(cut, **told)) == {"V8"}


@pytest.mark.parametrize("left_out", [False, True])
async def test_a_rewritten_ledger_is_caught_by_an_older_checkpoint_and_by_a_witness(
    log: MemoryLog, pool: Pool, tmp_path: Path, *, left_out: bool
) -> None:
    witness, cosigner = witness_in(tmp_path), WITNESS_KEYS[0].public
    write(log, typical("1"), TWO_ROUNDS, typical("other"))
    await enter_all(log, pool, witness=witness)
    files = await bundle_of(pool, None, TWO_ROUNDS.id, [str(VKEY)])
    kept = SignedNote.parse(TlogProof.parse(files["head.tlog-proof"].decode()).checkpoint)
    assert failed(files, checkpoints=[kept], witnesses=[cosigner], max_age_s=90) == set()
    await wipe(pool)
    other = MemoryLog()
    write(other, typical("1", steps=3), *([] if left_out else [TWO_ROUNDS]), typical("other"))
    await enter_all(other, pool)
    forged = await bundle_of(pool, None, typical("other").id, [str(VKEY)])
    assert failed(forged) == set()
    assert failed(forged, checkpoints=[kept]) == {"V9"}
    assert failed(forged, witnesses=[cosigner]) == {"V7"}
    proof = TlogProof.parse(forged["head.tlog-proof"].decode())
    note = SignedNote.parse(proof.checkpoint)
    with pytest.raises(LedgerAlarm, match="has cosigned"):
        await LedgerWitnesses([NearWitness(witness)]).cosigned(other, pool, note)
    pasted = str(SignedNote(note.text, [*note.signatures, *lines_of(kept, cosigner)]))
    for name in ("head.tlog-proof", "heads/entry.tlog-proof"):
        forged[name] = str(TlogProof.parse(forged[name].decode())._replace(checkpoint=pasted)).encode()
    assert failed(with_manifest(forged), witnesses=[cosigner]) == {"V7"}


async def test_a_quorum_is_what_the_policy_of_the_auditor_says(log: MemoryLog, pool: Pool, tmp_path: Path) -> None:
    ours, quantum, absent = [*(key.public for key in WITNESS_KEYS), SigningKey("w2", 0x04, b"2" * 32).public]
    lines = f"witness a {ours}\nwitness b {quantum}\nwitness c {absent}\ngroup any any a c\ngroup two 2 any b\nquorum "
    write(log, TWO_ROUNDS)
    await enter_all(log, pool, witness=witness_in(tmp_path))
    files = await bundle_of(pool, None, TWO_ROUNDS.id, [str(VKEY)])
    for quorum, status, of_ml_dsa in (
        ("none", "not_checked", "not_checked"),
        ("a", "ok", "ok"),
        ("any", "ok", "ok"),
        ("b", "not_checked", "ok"),
        ("two", "not_checked", "ok"),
        ("c", "fail", "fail"),
    ):
        policy = TlogPolicy.parse(f"{lines}{quorum}\n".encode())
        for check, wanted in ((is_ed25519_line, status), (is_signed_by, of_ml_dsa)):
            trust = Trust(VKEY, allow_withheld=True, policy=policy, is_made_with=check)
            verification = Verification(files, trust)
            verification.run()
            (claim,) = [claim for claim in verification.claims if claim.id == "V7"]
            assert (claim.status, verification.is_ok) == (wanted, quorum == "none" or wanted == "ok"), claim
    assert failed(files, witnesses=[ours, absent]) == {"V7"}
    assert failed(files, witnesses=[ours], max_age_s=30) == {"V14"}
    late = {"max_age_s": 600, "now_s": lambda: NOW_MS / 1000 + 300, "witnesses": [ours]}
    assert failed(files, **late) == set()
    assert failed(files, further_keys=[KEYS[1].public], is_made_with=is_signed_by) == set()
    unsigned = SigningKey(VKEY.name, 0x06, b"other" * 6 + b"!!").public
    assert failed(files, further_keys=[unsigned]) == set()
    assert failed(files, further_keys=[unsigned], is_made_with=is_signed_by) == {"V6"}


async def test_what_an_auditor_asks_of_witnesses_decides_how_the_script_ends(
    log: MemoryLog, pool: Pool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ours, quantum, absent = [*(key.public for key in WITNESS_KEYS), SigningKey("w2", 0x04, b"2" * 32).public]
    write(log, TWO_ROUNDS)
    await enter_all(log, pool, witness=witness_in(tmp_path))
    bundle, policy = tmp_path / "b.zip", tmp_path / "policy"
    with zipfile.ZipFile(bundle, "w") as opened:
        for name, data in (await bundle_of(pool, None, TWO_ROUNDS.id, [str(VKEY)])).items():
            opened.writestr(name, data)

    def ended(*options: str, key: str = str(VKEY)) -> tuple[int, str]:
        code = main(["--key", key, *options, "--allow-withheld", str(bundle)])
        told = capsys.readouterr()
        return code, told.err + "".join(line for line in told.out.splitlines() if line.startswith(" V7"))

    def asked(text: str, *options: str) -> tuple[int, str]:
        policy.write_text(text)
        return ended("--policy", str(policy), *options)

    assert ended("--witness", str(ours)) == (0, f" V7  ok           {NAMES['V7']}.")
    assert ended("--witness", str(ours), "--witness", str(absent))[0] == 1
    code, told = ended("--witness", str(quantum))
    assert (code, "only `poweron audit verify` can check" in told) == (1, True)
    assert asked(f"log {VKEY}\nwitness a {ours}\nwitness b {absent}\ngroup any 1 a b\nquorum any\n")[0] == 0
    assert asked(f"witness a {ours}\nquorum a\n", "--witness", str(absent))[0] == 1
    for wrong, sentence in (
        (ended("--witness", str(VKEY)), "is a ledger's"),
        (ended("--witness", "none"), "--witness: A key is NAME+ID+KEY"),
        (ended(key=str(ours)), "is a witness's"),
        (asked("quorum a\n"), "Line 1 of the policy: no line before defines 'a'"),
        (asked(f"log {SigningKey('other', ED25519, b'o' * 32).public}\nquorum none\n"), "does not list the key"),
        (ended("--policy", str(tmp_path / "nothing")), "No such file"),
    ):
        assert wrong[0] == 2
        assert sentence in wrong[1]


async def test_a_bundle_proves_any_checkpoint_that_the_auditor_holds(ledger: None, pool: Pool) -> None:
    files = await bundle_of(pool, None, TWO_ROUNDS.id, [str(VKEY)], held=[5, 10_000])
    assert ("consistency/5" in files, "consistency/10000" in files) == (True, False)
    async with acquire(pool) as connection:
        text = str(Checkpoint(VKEY.name, 5, await stored_root(connection, 5)))
    kept = SignedNote(text, [KEYS[0].sign(text)])
    assert failed(files, checkpoints=[kept]) == set()
    assert failed(await bundle_of(pool, None, TWO_ROUNDS.id, [str(VKEY)]), checkpoints=[kept]) == {"V9"}


async def test_the_key_counts_that_the_auditor_gives(files: Files) -> None:
    proof = TlogProof.parse(files["head.tlog-proof"].decode())
    own = SigningKey(VKEY.name, ED25519, b"f" * 32)
    text = SignedNote.parse(proof.checkpoint).text
    note = str(SignedNote(text, [own.sign(text)]))
    forged = {**files, "keys/ledger.vkeys": f"{own.public}\n".encode()}
    for name in ("head.tlog-proof", "heads/entry.tlog-proof"):
        forged[name] = str(TlogProof.parse(files[name].decode())._replace(checkpoint=note)).encode()
    assert failed(with_manifest(forged)) == {"V6"}


async def test_a_key_counts_that_the_key_of_the_auditor_has_announced(log: MemoryLog, pool: Pool) -> None:
    new = [SigningKey(key.name, key.algorithm, b"n" * 32) for key in KEYS]
    write(log, typical("1"))
    await catch_up(log, pool)
    await (await begun_ledger(log, pool, [KEYS], "1.0")).sign(NOW_MS)
    await catch_up(log, pool)
    await begun_ledger(log, pool, [new, KEYS], "1.0")
    write(log, TWO_ROUNDS)
    await catch_up(log, pool)
    ledger = await begun_ledger(log, pool, [new, KEYS], "1.0")
    await catch_up(log, pool)
    async for records in log.read(topics.EVENTS.name, ledger.positions, await log.ends(topics.EVENTS.name)):
        await ledger.enter(records)
    await ledger.sign(NOW_MS)
    await catch_up(log, pool)
    files = await bundle_of(pool, None, TWO_ROUNDS.id, [])
    kept = SignedNote.parse(TlogProof.parse(files["head.tlog-proof"].decode()).checkpoint)
    assert failed(files) == failed(files, key=new[0].public, checkpoints=[kept]) == set()
    announced = [name for name in files if name.startswith("keys/announced/")]
    assert len(announced) >= 2
    silent = with_manifest({name: data for name, data in files.items() if name not in announced})
    assert failed(silent) == {"V6"}
    stranger = SigningKey(VKEY.name, ED25519, b"s" * 32).public
    assert failed(files, key=stranger) == {"V6"}


async def test_the_timeline_is_what_the_events_say(files: Files) -> None:
    text = files["timeline.md"].decode()
    assert text.count("\n## ") == 1 + len(lines(files, "events"))
    assert "What is the grand total?" in text
    assert "Content-Security-Policy" in files["timeline.html"].decode()
    for name in ("timeline.md", "timeline.html"):
        forged = with_manifest({**files, name: files[name].replace(b"grand total", b"small total")})
        assert failed(forged) == {"V17"}
        assert failed(with_manifest({path: data for path, data in files.items() if path != name})) == {"V17"}
    older = {name: data.replace(b"timeline 1", b"timeline 0") for name, data in files.items()}
    older |= {"timeline.html": files["timeline.html"].replace(b'content="1"', b'content="0"')}
    verification = Verification(with_manifest(older), Trust(VKEY, allow_withheld=True))
    verification.run()
    assert (verification.claims[-1].status, verification.is_ok) == ("not_checked", False)
    verification.trust.ignore_timeline = True
    assert verification.is_ok


async def test_an_old_bundle_is_not_shown_as_a_new_one(files: Files) -> None:
    assert failed(files, max_age_s=3_600) == set()
    assert failed(files, max_age_s=30) == {"V14"}


AMBIGUOUS = (
    b'{"a":1,"a":1}',
    b'{"a":NaN}',
    b'{"a":"\\ud800"}',
    b'{"a":99999999999999999999}',
    b"[" * 2_000 + b"]" * 2_000,
    b'{"b":1,"a":2}',
    b'{"a":1.10}',
    b"\xff",
)
"""What two readers of JSON could read differently."""


async def test_what_two_readers_could_read_differently_is_refused(files: Files) -> None:
    for body in AMBIGUOUS:
        events = [*lines(files, "events")[:-1], body]
        entries = entered(events, lines(files, "entries"), -1)
        assert "V2" in failed(changed(files, events=events, entries=entries)), body


async def test_a_node_is_no_entry_and_a_cause_must_be_there(files: Files) -> None:
    entries = lines(files, "entries")
    node = node_hash(b"l" * 32, b"r" * 32)
    assert "V4" in failed(changed(files, entries=[*entries[:-1], node.hex().encode()]))
    events = lines(files, "events")
    events[4] = edited(events[4], causationhash="0" * 64)
    assert "V11" in failed(changed(files, events=events))


async def test_contents_are_those_that_the_events_name(log: MemoryLog, pool: Pool) -> None:
    content = ContentStore.at("memory:///")
    told, data = Told("with a document"), b"The museum opens at nine."
    name = await content.put(told.id, data)
    page = WebPage(url="https://example.org/", fetched_at="2026-11-18T00:00:00Z", sha256=_sha256(data), content=name)
    honest = document(content=name, size=len(data), page=page)
    write(log, told.tell(requested("with a document", documents=(honest,))))
    for number, (size, digest) in enumerate(((24, _sha256(data)), (25, _sha256(b"")))):
        liar = Told(f"liar {number}")
        own = {"content": await content.put(liar.id, data)}
        wrong = honest.model_copy(
            update={**own, "size": size, "page": page.model_copy(update={**own, "sha256": digest})}
        )
        write(log, liar.tell(requested(f"liar {number}", documents=(wrong,))))
    await enter_all(log, pool)
    files = await bundle_of(pool, content, told.id, [str(VKEY)])
    assert failed(files) == set()
    exchanged = with_manifest({**files, f"blobs/{name}": b"The museum opens at ten."})
    assert failed(exchanged) == {"V10"}
    hidden = with_manifest({path: data for path, data in files.items() if not path.startswith("blobs/")})
    assert failed(hidden) == {"V10", "V17"}
    for number in range(2):
        assert failed(await bundle_of(pool, content, Told(f"liar {number}").id, [str(VKEY)])) == {"V10"}


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize(("documents", "still_there"), [((), 0), (("r1d1",), 1)])
async def test_erased_content_is_erased_only_where_an_event_says_so(
    log: MemoryLog, pool: Pool, tmp_path: Path, documents: tuple[str, ...], still_there: int
) -> None:
    content, told = ContentStore.at("memory:///"), Told("erased")
    texts = [b"The museum opens at nine.", b"It closes at five."]
    names = await content.put_all(told.id, texts)
    given = [
        document(content=name, document_id=f"r1d{number}", size=len(text))
        for number, (name, text) in enumerate(zip(names, texts, strict=True), start=1)
    ]
    told.tell(requested("erased", documents=tuple(given)), cancellation())
    told.tell(RoundCancelled(round=1, message="", totals=Totals()))
    erased = ContentErased(
        documents=documents, contents=tuple(names[: len(documents)]), actor=Actor(id="ada"), request=identity("erase")
    )
    write(log, told.tell(erased))
    await content.erase(told.id, erased.contents or None)
    await enter_all(log, pool)
    files = await bundle_of(pool, content, told.id, [str(VKEY)])
    assert failed(files) == set()
    states = [orjson.loads(line) for line in lines(files, "blobs")]
    assert sum(each["status"] == "present" for each in states) == still_there
    assert sum(each["status"] == "erased" for each in states) == len(states) - still_there
    with zipfile.ZipFile(tmp_path / "bundle.zip", "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    (tmp_path / "verify.py").write_bytes(files["verify.py"])
    verified = _run(str(tmp_path / "verify.py"), "--key", str(VKEY), str(tmp_path / "bundle.zip"))
    assert verified.returncode == 0, verified.stdout
    hidden = {path: data for path, data in files.items() if not path.startswith("blobs/")}
    claimed = [orjson.dumps(each | {"status": "erased", "bytes": None}) for each in states]
    forged = changed(hidden, blobs=claimed)
    assert failed(forged) == ({"V10"} if still_there else set())


async def test_any_changed_byte_is_caught(files: Files) -> None:
    chance = random.Random(31)
    names = sorted(name for name, data in files.items() if data)
    for _ in range(500):
        name = chance.choice(names)
        data = bytearray(files[name])
        data[chance.randrange(len(data))] ^= chance.randrange(1, 256)
        assert failed({**files, name: bytes(data)})


async def test_what_is_not_signed_yet_is_not_exported(log: MemoryLog, pool: Pool) -> None:
    write(log, typical("1"))
    await enter_all(log, pool, sign=False)
    with pytest.raises(NotSigned):
        await bundle_of(pool, None, typical("1").id, [])


async def test_a_workflow_at_work_is_exported_as_of_the_newest_checkpoint(log: MemoryLog, pool: Pool) -> None:
    told = Told("at work").tell(requested("at work"))
    write(log, told)
    await enter_all(log, pool)
    signed = len(told.values)
    told.tell(planned())
    for value in told.values[signed:]:
        log.write(topics.EVENTS.name, told.id.encode(), value)
    await enter_all(log, pool, sign=False)
    files = await bundle_of(pool, None, told.id, [str(VKEY)])
    assert (failed(files), len(lines(files, "events"))) == (set(), signed)
    with pytest.raises(NotSigned):
        await bundle_of(pool, None, told.id, [str(VKEY)], through=signed)


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The script as an auditor runs it: with Python alone, and nothing of PowerOn."""
    command = [sys.executable, "-I", "-S", *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, env={}, timeout=60)


async def test_the_script_verifies_a_folder_and_a_zip_without_anything_installed(files: Files, tmp_path: Path) -> None:
    folder, archive = tmp_path / "bundle", tmp_path / "bundle.zip"
    with zipfile.ZipFile(archive, "w") as opened:
        for name, data in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
            opened.writestr(name, data)
    script = str(folder / "verify.py")
    for bundle in (folder, archive):
        found = _run(script, "--key", str(VKEY), "--allow-withheld", "--json", str(bundle))
        assert (found.returncode, orjson.loads(found.stdout)["verdict"]) == (0, "ok"), found.stderr
    (folder / "blobs.jsonl").write_bytes(b"")
    found = _run(script, "--key", str(VKEY), "--allow-withheld", str(folder))
    assert (found.returncode, "is NOT verified" in found.stdout) == (1, True)
    found = _run(script, str(folder))
    assert (found.returncode, "`poweron audit key`" in found.stderr) == (2, True)
    assert _run(script, "--key", "none", str(folder)).returncode == 2
    archive.write_bytes(archive.read_bytes()[:-40])
    found = _run(script, "--key", str(VKEY), str(archive))
    assert (found.returncode, found.stdout.count("FAIL")) == (1, 1)
    (folder / "link").symlink_to("/etc/hostname")
    assert "is a link" in _run(script, "--key", str(VKEY), str(folder)).stdout


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "a//b", "a\\b"])
def test_a_zip_with_strange_names_is_refused(tmp_path: Path, name: str) -> None:
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as opened:
        opened.writestr(name, b"")
    (tmp_path / "verify.py").write_text(verify_script())
    found = _run(str(tmp_path / "verify.py"), "--key", str(VKEY), "--json", str(tmp_path / "b.zip"))
    (claim,) = orjson.loads(found.stdout)["claims"]
    assert (found.returncode, claim["id"], claim["status"]) == (1, "V1", "fail")


def test_the_verifier_knows_every_field_that_names_content() -> None:
    known, waiting = set[type[Model]](), [*WORKFLOW_EVENTS.values(), *REQUESTS.values()]
    fields = set[str]()
    while waiting:
        model = waiting.pop()
        if model in known:
            continue
        known.add(model)
        fields |= {str(model.model_fields[name].alias or name) for name in content_fields(model)}
        waiting += model.__subclasses__()
    assert fields <= CONTENT_FIELDS
