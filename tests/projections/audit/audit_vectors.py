"""Golden vectors of the ledger: entries, roots, proofs and notes that other implementations have opened."""

from pathlib import Path
from typing import Any, Final

import orjson

VECTORS: Final[dict[str, Any]] = orjson.loads(Path(__file__).with_suffix(".json").read_bytes())
