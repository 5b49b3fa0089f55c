"""The characters of Chinese, Japanese and Korean fonts that a PDF names without bringing them along.

pdfminer has a file for each of these maps and opens it when a font asks for it. By then the process can open none any
more, so all of them are read before, packed as they are.
"""

import gzip
import json
from pathlib import Path
from typing import Any

from pdfminer import cmapdb


def keep() -> None:
    """Read the files of pdfminer, and let it take its maps from what was read."""
    packed = {file.name: file.read_bytes() for file in Path(cmapdb.__file__).with_name("cmap").iterdir()}

    def unpacked(name: str) -> type:
        found = packed.get(f"{name}.json.gz")
        if found is None:
            raise cmapdb.CMapDB.CMapNotFound(name)
        return type(name, (), json.loads(gzip.decompress(found), object_hook=_with_codes))

    cmapdb.CMapDB._load_data = unpacked  # type: ignore[method-assign] # noqa: SLF001 - no public way to its maps


def _with_codes(entries: dict[str, Any]) -> dict[str | int, Any]:
    """JSON knows texts as keys only; those of the maps are codes."""
    return {int(key) if key.isdecimal() else key: value for key, value in entries.items()}
