"""Writes the files of a bundle into a folder or a zip, one by one; the same files make the same bytes."""

import hashlib
import zipfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from poweron_projections.audit.verifier.bundle_files import MANIFEST, MAX_BYTES, MAX_FILES, manifest_listing
from poweron_services.cli import files
from poweron_services.cli.context import FAILED, USAGE
from poweron_services.cli.error_messages import stop

_NO_TIME: Final = (1980, 1, 1, 0, 0, 0)  # the least that a zip can say


class BundleWriter:
    """Writes files, and at last the manifest that lists them."""

    def __init__(self, store: Callable[[str, bytes], None]) -> None:
        self._store = store
        self._digests = dict[str, str]()
        self._size = 0

    def write(self, name: str, data: bytes) -> None:
        """Write one file; end the command if they become more than a verifier reads."""
        self._size += len(data)
        if self._size > MAX_BYTES or len(self._digests) >= MAX_FILES - 1:
            stop(
                f"The bundle would have more than {MAX_BYTES:,} bytes or {MAX_FILES:,} files, which no verifier reads. "
                "Export fewer workflows, a shorter period, or --without-content.",
                FAILED,
            )
        self._digests[name] = hashlib.sha256(data).hexdigest()
        self._store(name, data)

    def write_manifest(self) -> None:
        """Write the manifest of all files so far."""
        self._store(MANIFEST, manifest_listing(self._digests))


def check_output(output: Path | None) -> Path:
    """Return where to write a bundle; end the command if it cannot be written there."""
    if output is None:
        stop("A bundle has several files. Name the folder, or the zip, to write with --output.", USAGE)
    if output.suffix == ".zip":
        files.check_file_writable(output)
    elif output.exists() and (not output.is_dir() or any(output.iterdir())):
        stop(f"{str(output)!r} exists. Name a folder that does not exist yet, or is empty.", USAGE)
    else:
        files.check_writable(output)
    return output


@contextmanager
def bundle_writer(output: Path, is_earlier: Callable[[bytes], bool]) -> Generator[BundleWriter, None, None]:
    """Write a bundle; a zip is moved into place once it is complete, and replaces only an earlier one."""
    if output.suffix != ".zip":
        yield BundleWriter(lambda name, data: _store(output / name, data))
        return
    with files.replacing(output, is_earlier) as beside, zipfile.ZipFile(beside, "w", zipfile.ZIP_DEFLATED) as archive:
        yield BundleWriter(lambda name, data: _add(archive, name, data))


def _store(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def _add(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    entry = zipfile.ZipInfo(name, date_time=_NO_TIME)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    archive.writestr(entry, data)
