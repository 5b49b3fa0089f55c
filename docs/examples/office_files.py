"""What the example documents of office programs have in common: when they were made, and zip files without a clock."""

import datetime as dt
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

CREATED = dt.datetime(2025, 1, 6, 9, 0)  # noqa: DTZ001 - office files hold local times


def date(properties: Any, title: str, author: str) -> None:
    properties.title, properties.author, properties.last_modified_by = title, author, author
    properties.created = properties.modified = CREATED
    properties.revision = 1


def fix_times(path: Path) -> None:
    """Pack an office file again, so that no entry tells when this script ran."""
    with zipfile.ZipFile(path) as packed:
        entries = {name: packed.read(name) for name in packed.namelist()}
    pack(path, entries)


def pack(path: Path, entries: Mapping[str, bytes | str]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in entries.items():
            info = zipfile.ZipInfo(name, CREATED.timetuple()[:6])
            info.compress_type = zipfile.ZIP_STORED if name == "mimetype" else zipfile.ZIP_DEFLATED
            packed.writestr(info, content)
