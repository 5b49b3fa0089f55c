"""`poweron witness`: cosign checkpoints of ledgers, as a server or by hand."""

import zipfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Final

import typer

from poweron_projections.audit.checkpoint import Checkpoint
from poweron_projections.audit.checkpoint_witness import Witness, WitnessState
from poweron_projections.audit.note_signatures import SigningKey
from poweron_projections.audit.notes import ED25519_COSIGNATURE, InvalidNote, SignedNote, VerifierKey
from poweron_projections.audit.tlog_proof import InvalidProof, TlogProof
from poweron_projections.audit.verifier.bundle_files import UnreadableBundle, read_bundle
from poweron_projections.audit.witness_request import InvalidWitnessRequest, WitnessRequest
from poweron_services import telemetry
from poweron_services.cli.arguments import AsJson
from poweron_services.cli.command_group import command_group
from poweron_services.cli.context import USAGE
from poweron_services.cli.error_messages import load_settings, run_work, sentences, stop
from poweron_services.cli.output import print_json, print_keys, tell
from poweron_services.settings.config import Settings
from poweron_services.settings.setting_types import host_and_port
from poweron_services.witness.witness_keys import KEY_FILE, witness_keys

witness = command_group("Cosign checkpoints of ledgers, as a witness of them.")

STATE: Final = "witness"
"""The folder in the data directory."""
Key = Annotated[
    list[str], typer.Option("--key", metavar="VKEY", help="The key of a ledger, from its operator; repeatable.")
]
Folder = Annotated[
    Path | None, typer.Option("--state", metavar="DIR", help="Where the witness keeps its key and what it has seen.")
]
Name = Annotated[
    str | None,
    typer.Option("--name", metavar="NAME", help="The name of a new witness, best a domain and a path of yours."),
]


@witness.command("key")
@sentences()
def witness_key(state: Folder = None, name: Name = None, as_json: AsJson = False) -> None:
    """Show the public keys of the witness, which auditors and ledgers put into their policies.

    Creates the key if there is none yet.
    """
    print_keys([str(key.public) for key in _keys(_folder(load_settings(), state), name)], "--witness", as_json=as_json)


@witness.command("serve")
@sentences()
def witness_serve(
    key: Key,
    listen: Annotated[str, typer.Option("--listen", metavar="HOST:PORT", help="Where to listen.")] = "127.0.0.1:8850",
    state: Folder = None,
    name: Name = None,
) -> None:
    """Cosign what ledgers submit over HTTP, until stopped.

    Needs neither Kafka nor Postgres. Run it where the operator of the ledger has no access.
    """
    from poweron_services.witness.witness_server import listening_at, serve_witness  # noqa: PLC0415 - slow to import

    try:
        host, port = host_and_port(listen)
    except ValueError as error:
        stop(f"--listen: {error}.", USAGE)
    settings = Settings()
    telemetry.configure(settings.log_level, lasting=True)
    running = _witness(_folder(settings, state), name, key)
    sock = listening_at(host, port)
    tell(f"The witness {running.keys[0].name} listens at http://{listen}.")
    with suppress(KeyboardInterrupt):
        run_work(serve_witness(running, sock))


@witness.command("sign")
@sentences()
def witness_sign(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A bundle, or a request `add-checkpoint` of tlog-witness.")
    ],
    key: Key,
    state: Folder = None,
    name: Name = None,
    as_json: AsJson = False,
) -> None:
    """Cosign a checkpoint by hand, and print it.

    Refuses one that is smaller than the last one that this witness has cosigned, or does not continue it.
    """
    signing = _witness(_folder(load_settings(), state), name, key)
    request = _request(file, signing)
    cosigned = SignedNote(request.note.text, [*request.note.signatures, *signing.cosign(request)])
    checkpoint = request.checkpoint
    if as_json:
        print_json({"origin": checkpoint.origin, "size": checkpoint.size, "checkpoint": str(cosigned)})
    else:
        typer.echo(str(cosigned), nl=False)


def _folder(settings: Settings, given: Path | None) -> Path:
    return given or settings.home / STATE


def _witness(folder: Path, name: str | None, vkeys: list[str]) -> Witness:
    try:
        ledgers = [VerifierKey.parse(vkey) for vkey in vkeys]
    except InvalidNote as error:
        stop(f"--key: {error}", USAGE)
    for key in ledgers:
        if key.algorithm == ED25519_COSIGNATURE:
            stop(f"--key: the key of {key.name!r} is that of a witness, not of a ledger.", USAGE)
    return Witness(_keys(folder, name), ledgers, WitnessState(folder))


def _keys(folder: Path, name: str | None) -> tuple[SigningKey, SigningKey]:
    """Return the keys of the witness; say so if they are new."""
    is_new = not (folder / KEY_FILE).exists()
    keys = witness_keys(folder, name)
    if is_new:
        tell(f"Made a key for the witness {keys[0].name} in {folder}. It keeps this name; another one needs a --state.")
    return keys


def _request(path: Path, signing: Witness) -> WitnessRequest:
    """Read a request, or make one of a bundle that continues what the witness has cosigned last."""
    try:
        if not path.is_dir() and not zipfile.is_zipfile(path):
            return WitnessRequest.parse(path.read_bytes())
        files = read_bundle(path)
        folder, note = _newest_checkpoint(files)
        new = Checkpoint.parse(note.text)
        old = signing.known_size(new.origin)
        if new.size < old:
            stop(f"{path} has {new.size} entries, fewer than the {old} that were cosigned last: get a newer bundle.")
        if not 0 < old < new.size:
            return WitnessRequest(old, [], note)
        proof = files.get(f"{folder}consistency/{old}")
        if proof is None:
            stop(
                f"{path} has no proof that the ledger continues the {old} entries that this witness has cosigned last."
            )
        return WitnessRequest(old, [bytes.fromhex(line.decode()) for line in proof.splitlines()], note)
    except OSError as error:
        stop(f"{path} cannot be read: {error.strerror}.", USAGE)
    except (KeyError, ValueError, InvalidProof, InvalidWitnessRequest, UnreadableBundle) as error:
        stop(f"{path} holds no checkpoint that can be cosigned: {error}", USAGE)


def _newest_checkpoint(files: Mapping[str, bytes]) -> tuple[str, SignedNote]:
    """Return the folder of the newest checkpoint in a bundle, that of its period or of its workflows, and itself."""
    if "period/checkpoint" in files:
        return "", SignedNote.parse(files["period/checkpoint"].decode())
    proofs = [name for name in files if name.endswith("head.tlog-proof")]
    notes = [(name, SignedNote.parse(TlogProof.parse(files[name].decode()).checkpoint)) for name in proofs]
    if not notes:
        raise ValueError("it has none.")
    name, note = max(notes, key=lambda named: Checkpoint.parse(named[1].text).size)
    return name.removesuffix("head.tlog-proof"), note
