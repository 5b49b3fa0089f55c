"""Java's ahead-of-time cache, with which the broker starts in a third of the time.

The first broker records what it loads. After it has stopped, a low-priority background process builds the cache from
the recording. This is attempted only once, and Java ignores a cache that does not suit it.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from poweron_services.embedded import wheels
from poweron_services.embedded.jars import PINNED

MAKE = 'mv "$0.recorded" "$0.used" && nice -n 19 "$@" && mv "$0.new" "$0" && rm "$0.used"'


@dataclass(frozen=True, slots=True)
class StartCache:
    """The cache for these jars and this Java."""

    path: Path

    @classmethod
    def of(cls, folder: Path) -> "StartCache":
        release = wheels.java().parents[1] / "release"
        key = hashlib.sha256(PINNED.read_bytes() + release.read_bytes()).hexdigest()[:12]
        return cls(folder / f"start-{key}.aot")

    def options(self, folder: Path) -> list[str]:
        """The Java options for the broker; `folder` is the cache's folder, as the broker sees it."""
        if self.path.exists():
            return [f"-XX:AOTCache={folder / self.path.name}", "-Xlog:disable", "-Xlog:all=error:stderr"]
        if self._step("recorded").exists() or self._step("used").exists():
            return []
        return ["-XX:AOTMode=record", f"-XX:AOTConfiguration={folder / self.path.name}.recorded"]

    def is_recorded(self) -> bool:
        return self._step("recorded").exists()

    def command(self, java: Sequence[str], folder: Path) -> list[str]:
        """The command that builds the cache; `java` is the broker's command up to its class path."""
        name = str(folder / self.path.name)
        mode = ["-XX:AOTMode=create", f"-XX:AOTConfiguration={name}.used", f"-XX:AOTCache={name}.new"]
        return ["/bin/sh", "-c", MAKE, name, java[0], *mode, *java[1:]]

    def _step(self, name: str) -> Path:
        return self.path.with_name(f"{self.path.name}.{name}")
