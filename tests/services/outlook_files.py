"""Messages as Outlook saves them, made on the spot: no library writes them."""

import datetime as dt
import struct
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

SECTOR, MINI, CUTOFF = 512, 64, 4096
FREE, END, FAT_SECTOR = 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFD
TEXT, BINARY, TIME, NUMBER = 0x001F, 0x0102, 0x0040, 0x0003

Tree = Mapping[str, Any]
"""Streams are bytes, folders are trees."""


def message_of(
    subject: str, body: str, *, sender: str = "", to: str = "", attachments: Sequence[tuple[str, bytes]] = ()
) -> bytes:
    sent = dt.datetime(2025, 6, 16, 8, 24, tzinfo=dt.UTC) - dt.datetime(1601, 1, 1, tzinfo=dt.UTC)
    root: dict[str, Any] = _properties(
        {
            (0x001A, TEXT): "IPM.Note",
            (0x0037, TEXT): subject,
            (0x1000, TEXT): body,
            (0x0C1A, TEXT): sender,
            (0x0C1F, TEXT): f"{sender.lower()}@office.example",
            (0x0039, TIME): int(sent.total_seconds() * 10_000_000),
        },
        struct.pack("<8x4I8x", 1, len(attachments), 1, len(attachments)),
    )
    recipient = {(0x3001, TEXT): to, (0x39FE, TEXT): f"{to.lower()}@office.example", (0x0C15, NUMBER): 1}
    root["__recip_version1.0_#00000000"] = _properties(recipient, bytes(8))
    for number, (name, data) in enumerate(attachments):
        about = {(0x3707, TEXT): name, (0x3701, BINARY): data, (0x3705, NUMBER): 1}
        root[f"__attach_version1.0_#{number:08X}"] = _properties(about, bytes(8))
    return compound_file(root)


def _properties(values: Mapping[tuple[int, int], str | bytes | int], head: bytes) -> dict[str, bytes]:
    streams, entries = {}, []
    for (number, kind), value in values.items():
        if isinstance(value, int):
            entries.append(struct.pack("<HHIQ", kind, number, 6, value))
            continue
        data = value.encode("utf-16-le") if isinstance(value, str) else value
        streams[f"__substg1.0_{number:04X}{kind:04X}"] = data
        entries.append(struct.pack("<HHIII", kind, number, 6, len(data) + (2 if kind == TEXT else 0), 0))
    return {"__properties_version1.0": head + b"".join(entries), **streams}


def compound_file(tree: Tree) -> bytes:
    """A file of Microsoft's format for folders and streams in one file."""
    entries: list[dict[str, Any]] = []
    _add(entries, "Root Entry", tree, 5)
    small = b""
    mini_fat: list[int] = []
    sectors: list[bytes] = []
    fat: list[int] = []

    def stored(data: bytes) -> int:
        count = -(-len(data) // SECTOR)
        if not count:
            return END
        start = len(sectors)
        sectors.extend(data[at : at + SECTOR].ljust(SECTOR, b"\0") for at in range(0, len(data), SECTOR))
        fat.extend([*range(start + 1, start + count), END])
        return start

    for entry in entries:
        data = entry["data"]
        if entry["kind"] != 2:
            continue
        if len(data) >= CUTOFF:
            entry["start"] = stored(data)
        elif data:
            count = -(-len(data) // MINI)
            entry["start"] = len(mini_fat)
            mini_fat += [*range(len(mini_fat) + 1, len(mini_fat) + count), END]
            small += data.ljust(count * MINI, b"\0")
    entries[0]["start"], entries[0]["size"] = stored(small), len(small)
    mini = stored(struct.pack(f"<{len(mini_fat)}I", *mini_fat).ljust(SECTOR, b"\xff"))
    directory = stored(b"".join(map(_entry, entries)).ljust(SECTOR, b"\0"))
    count = 1
    while (len(sectors) + count) * 4 > count * SECTOR:
        count += 1
    places = range(len(sectors), len(sectors) + count)
    table = struct.pack(f"<{len(fat)}I", *fat) + struct.pack("<I", FAT_SECTOR) * count
    head = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(16) + struct.pack("<HHHHH6x", 0x3E, 3, 0xFFFE, 9, 6)
    head += struct.pack("<IIIIIIIII", 0, count, directory, 0, CUTOFF, mini, -(-len(mini_fat) * 4 // SECTOR), END, 0)
    head += b"".join(struct.pack("<I", place) for place in places)
    return head.ljust(SECTOR, b"\xff") + b"".join(sectors) + table.ljust(count * SECTOR, b"\xff")


def _add(entries: list[dict[str, Any]], name: str, content: Any, kind: int) -> int:
    """Siblings stand in a chain to the right: no order is needed to read them all."""
    place = len(entries)
    is_file = isinstance(content, bytes)
    entry = {
        "name": name,
        "kind": 2 if is_file else kind,
        "data": content if is_file else b"",
        "size": len(content) if is_file else 0,
        "start": END if is_file else 0,
        "right": FREE,
        "child": FREE,
    }
    entries.append(entry)
    if not is_file:
        children = [_add(entries, inner, content[inner], 1) for inner in content]
        entry["child"] = children[0] if children else FREE
        for one, following in pairwise(children):
            entries[one]["right"] = following
    return place


def _entry(entry: dict[str, Any]) -> bytes:
    name = (entry["name"] + "\0").encode("utf-16-le")
    about = struct.pack("<HBBIII", len(name), entry["kind"], 1, FREE, entry["right"], entry["child"])
    return name.ljust(64, b"\0") + about + bytes(36) + struct.pack("<IQ", entry["start"], entry["size"])
