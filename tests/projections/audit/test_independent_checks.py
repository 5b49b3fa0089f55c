"""What others wrote judges the ledger: Go's packages for transparency logs, Tessera's `fsck`, Wycheproof, and vectors.

They need Go and the network, so they are no part of the usual run.
"""

import base64
import json
import shutil
import struct
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from ledgers import KEYS, enter_all, write

from builders import exported, typical
from poweron_events import topics
from poweron_events.log.memory import MemoryLog
from poweron_projections.audit.bundle import bundle_of
from poweron_projections.audit.merkle_tree import GrowingTree, is_consistent, is_included, leaf_hash
from poweron_projections.audit.verifier.ed25519 import is_signature
from poweron_projections.connection import Pool

GO = shutil.which("go") or "/usr/local/go/bin/go"
pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not Path(GO).exists(), reason="Go is not installed here"),
]

HOST = ".".join(("golang", "org"))  # noqa: FLY002 - the house names no registry
MODULES = f"{HOST}/x/mod@v0.30.0"
SOURCE = Path(__file__).with_name("check_bundle.go")
MERKLE = "github.com/transparency-dev/merkle@v0.0.3-0.20260707140218-77df88e508fa"
WYCHEPROOF = "github.com/google/wycheproof@v0.0.0-20191219022705-2196000605e4"
FSCK = "github.com/transparency-dev/tessera/cmd/fsck@v1.0.4"
WIDTH = 256  # entries of a tile


def module(name: str) -> Path:
    """Where a module of Go is, which is fetched first."""
    found = subprocess.run([GO, "mod", "download", "-json", name], check=True, capture_output=True)
    return Path(json.loads(found.stdout)["Dir"])


def run(*command: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([GO, "run", *command], check=False, capture_output=True, text=True, cwd=cwd)


def vectors(kind: str) -> Iterator[tuple[str, Any]]:
    for path in sorted((module(MERKLE) / "testdata" / kind).rglob("*.json")):
        yield path.name, json.loads(path.read_bytes())


def decoded(values: Sequence[str] | None) -> list[bytes]:
    return [base64.b64decode(value) for value in values or []]


def test_proofs_are_accepted_and_refused_as_the_vectors_of_transparency_dev_say() -> None:
    for name, vector in vectors("inclusion"):
        leaf, root = decoded([vector["leafHash"] or "", vector["root"] or ""])
        found = is_included(leaf, vector["leafIdx"], vector["treeSize"], decoded(vector["proof"]), root)
        assert found != vector["wantErr"], name
    for name, vector in vectors("consistency"):
        old, new = decoded([vector["root1"] or "", vector["root2"] or ""])
        found = is_consistent(vector["size1"], old, vector["size2"], new, decoded(vector["proof"]))
        assert found != vector["wantErr"], name
    assert sum(1 for kind in ("inclusion", "consistency") for _ in vectors(kind)) == 196


def test_signatures_of_ed25519_are_accepted_and_refused_as_wycheproof_says() -> None:
    groups = json.loads((module(WYCHEPROOF) / "testvectors" / "eddsa_test.json").read_bytes())["testGroups"]
    tests = [(bytes.fromhex(group["key"]["pk"]), test) for group in groups for test in group["tests"]]
    assert len(tests) == 145
    for public, test in tests:
        found = is_signature(public, bytes.fromhex(test["msg"]), bytes.fromhex(test["sig"]))
        assert found == (test["result"] == "valid"), test


async def ledger_of(log: MemoryLog, pool: Pool, workflows: int) -> list[bytes]:
    """Enter workflows in a ledger that is signed several times; return its entries."""
    for number in range(workflows):
        write(log, typical(str(number)).tell(exported()))
        if number % 10 == 0 or number == workflows - 1:
            await enter_all(log, pool)
    ends = await log.ends(topics.LEDGER.name)
    return [record.value or b"" async for batch in log.read(topics.LEDGER.name, {}, ends) for record in batch]


async def last_note(log: MemoryLog) -> bytes:
    ends = await log.ends(topics.CHECKPOINTS.name)
    notes = [record.value or b"" async for batch in log.read(topics.CHECKPOINTS.name, {}, ends) for record in batch]
    return notes[-1]


async def test_go_opens_every_note_and_proof_of_a_bundle(log: MemoryLog, pool: Pool, tmp_path: Path) -> None:
    key = str(KEYS[0].public)
    (tmp_path / SOURCE.name).write_text(SOURCE.read_text().replace("HOST", HOST))
    for command in (("init", "independent"), ("edit", "-require", MODULES), ("tidy",)):
        subprocess.run([GO, "mod", *command], check=True, capture_output=True, cwd=tmp_path)  # noqa: ASYNC221 - alone
    await ledger_of(log, pool, 3)
    old = tmp_path / "old"
    old.write_bytes(await last_note(log))
    write(log, typical("later"))
    await enter_all(log, pool)
    for told, held in ((typical("0"), []), (typical("later"), [old])):
        files = await bundle_of(pool, None, told.id, [key])
        for name, data in files.items():
            (tmp_path / told.id / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / told.id / name).write_bytes(data)
        found = run(SOURCE.name, key, tmp_path / told.id, *held, cwd=tmp_path)
        assert found.returncode == 0, found.stderr
    entries = tmp_path / typical("0").id / "entries.jsonl"
    entries.write_text(entries.read_text().replace("accepted", "unknown"))
    assert run(SOURCE.name, key, entries.parent, cwd=tmp_path).returncode == 1


async def test_fsck_of_tessera_finds_the_tree_of_the_ledger_whole(log: MemoryLog, pool: Pool, tmp_path: Path) -> None:
    entries = await ledger_of(log, pool, 40)
    assert len(entries) > 2 * WIDTH
    write_tiles(entries, tmp_path)
    (tmp_path / "checkpoint").write_bytes(await last_note(log))
    (tmp_path / "key").write_text(str(KEYS[0].public))
    command = (FSCK, f"--storage_url=file://{tmp_path}/", f"--public_key={tmp_path}/key", "--ui=false")
    whole = f"Successfully fsck'd log with size {len(entries)}"
    assert whole in run(*command).stderr
    entries[3] = entries[3].replace(b"accepted", b"unknown!")
    write_tiles(entries, tmp_path)
    assert whole not in run(*command).stderr


def write_tiles(entries: Sequence[bytes], folder: Path) -> None:
    """Write entries and hashes as C2SP `tlog-tiles` has them, for fewer than 256 * 256 entries."""
    bundles = [b"".join(struct.pack(">H", len(each)) + each for each in part) for part in tiles(entries)]
    leaves = [leaf_hash(entry) for entry in entries]
    hashes = {0: leaves, 1: [tile_root(part) for part in tiles(leaves) if len(part) == WIDTH]}
    for name, parts, count in (
        ("tile/entries", bundles, len(entries)),
        *(
            (f"tile/{level}", [b"".join(part) for part in tiles(level_hashes)], len(level_hashes))
            for level, level_hashes in hashes.items()
        ),
    ):
        for number, data in enumerate(parts):
            width = min(WIDTH, count - number * WIDTH)
            path = folder / name / f"{number:03}" if width == WIDTH else folder / name / f"{number:03}.p" / str(width)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)


def tiles(values: Sequence[bytes]) -> list[Sequence[bytes]]:
    return [values[at : at + WIDTH] for at in range(0, len(values), WIDTH)]


def tile_root(hashes: Sequence[bytes]) -> bytes:
    """The root of a full tile."""
    tree = GrowingTree()
    for each in hashes:
        tree.append(each)
    return tree.root
