"""The files of a bundle, from a folder or a zip, with nothing else believed than their bytes."""

import hashlib
import json
import os
import re
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from poweron_projections.audit.verifier.strict_json import InvalidJson, parsed

MANIFEST: Final = "manifest.json"
MAX_BYTES: Final = 1_000_000_000  # of all files together
MAX_FILES: Final = 1_000_000
_PATH: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*")


class UnreadableBundle(Exception):
    """The bundle cannot be read as a folder or a zip of plain files; the message says why."""


def read_bundle(path: Path) -> Mapping[str, bytes]:
    """Return the bytes of all files by their path in the bundle.

    Raises:
        UnreadableBundle: it has links, strange names, too many bytes, or is damaged.
    """
    try:
        return _of_folder(path) if path.is_dir() else _of_zip(path)
    except (OSError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise UnreadableBundle(f"{path} cannot be read: {error}") from error


def wrong_files(files: Mapping[str, bytes]) -> str:
    """Return what is wrong with the files, compared with the manifest; nothing if they are those that it lists."""
    try:
        manifest = parsed(files.get(MANIFEST, b""))
    except InvalidJson as error:
        return f"{MANIFEST} is not as PowerOn writes it: {error}"
    if not (isinstance(manifest, dict) and set(manifest) == {"files", "v"} and manifest["v"] == 1):
        return f"{MANIFEST} is not of the version that this script knows"
    listed: Any = manifest["files"]
    if not isinstance(listed, dict):
        return f"{MANIFEST} is not of the version that this script knows"
    if missing := {*listed} - {*files}:
        return f"{min(missing)} is missing"
    if others := {*files} - {*listed, MANIFEST}:
        return f"the manifest does not list {min(others)}"
    wrong = [name for name, digest in listed.items() if hashlib.sha256(files[name]).hexdigest() != digest]
    return f"{wrong[0]} has other bytes than the manifest says" if wrong else ""


def manifest_of(files: Mapping[str, bytes]) -> bytes:
    """Return the manifest of these files."""
    return manifest_listing({name: hashlib.sha256(data).hexdigest() for name, data in files.items()})


def manifest_listing(digests: Mapping[str, str]) -> bytes:
    """Return the manifest of files with these SHA-256, in hexadecimal."""
    return json.dumps({"files": digests, "v": 1}, sort_keys=True, separators=(",", ":")).encode()


def _of_folder(folder: Path) -> Mapping[str, bytes]:
    files, size = dict[str, bytes](), 0
    for parent, folders, names in os.walk(folder):
        for name in (*folders, *names):
            if (Path(parent) / name).is_symlink():
                raise UnreadableBundle(f"{Path(parent) / name} is a link")
        for name in names:
            path = Path(parent) / name
            size += path.stat().st_size
            _check(path.relative_to(folder).as_posix(), size, len(files))
            files[path.relative_to(folder).as_posix()] = path.read_bytes()
    return files


def _of_zip(path: Path) -> Mapping[str, bytes]:
    files, size = dict[str, bytes](), 0
    with zipfile.ZipFile(path) as archive:
        for each in archive.infolist():
            size += each.file_size
            _check(each.filename, size, len(files))
            if each.filename in files:
                raise UnreadableBundle(f"{each.filename} occurs twice")
            if each.external_attr >> 16 & 0o170000 not in (0, 0o100000):
                raise UnreadableBundle(f"{each.filename} is a link, or no plain file")
            with archive.open(each) as file:
                files[each.filename] = file.read(each.file_size + 1)
            if len(files[each.filename]) != each.file_size:
                raise UnreadableBundle(f"{each.filename} has another size than it says")
    return files


def _check(name: str, size: int, count: int) -> None:
    if not _PATH.fullmatch(name):
        raise UnreadableBundle(f"PowerOn writes no file {name!r} into a bundle; delete it if an archive tool added it")
    if size > MAX_BYTES or count >= MAX_FILES:
        raise UnreadableBundle(f"it has more than {MAX_BYTES:,} bytes or {MAX_FILES:,} files")
