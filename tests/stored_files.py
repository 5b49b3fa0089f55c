"""All that is stored below a folder, as it was before it was compressed."""

from pathlib import Path

from poweron_events.content_packs import SUFFIX, read_content, read_records


def stored_files(folder: Path) -> dict[str, bytes]:
    """The bytes of every file by its path; a pack is left out, and each of its contents has a path below its own."""
    found = dict[str, bytes]()
    for path in folder.rglob("*"):
        if path.suffix == SUFFIX:
            with path.open("rb") as file:
                for record in read_records(file, path.name, 0).contents:
                    found[f"{path}/{record.name}"] = read_content(file, record)
        elif path.is_file():
            found[str(path)] = path.read_bytes()
    return found


def everything_in(folder: Path) -> bytes:
    """All bytes below a folder, and all contents of packs as they were before they were compressed."""
    return b"".join(
        [*(path.read_bytes() for path in folder.rglob("*") if path.is_file()), *stored_files(folder).values()]
    )
