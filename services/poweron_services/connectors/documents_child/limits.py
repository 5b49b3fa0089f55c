"""What reading one document may cost."""

import resource
from contextlib import suppress
from dataclasses import dataclass, replace

MEGABYTE = 1_000_000
LEAST_CPU_SECONDS = 5  # that the smallest document gets
BYTES_PER_CPU_SECOND = 4_000  # of the document, for which it gets one second more


@dataclass(frozen=True, slots=True)
class Limits:
    input_bytes: int = 100 * MEGABYTE
    characters: int = 100 * MEGABYTE  # of the text that comes out; more is cut off, with a note
    whole_text: int = 5 * MEGABYTE  # bytes of a text that has to be held as a whole while it is read
    sections: int = 50_000
    document_seconds: float = 600.0  # of all processes that read pages of one document
    wall_seconds: float = 120.0  # of one process, which reads some pages, or a document without pages
    cpu_seconds: int = 55  # likewise; and less for what is small
    first_page: int = 1  # that one process reads
    pages: int = 100  # likewise: so much is lost at most, and so little memory is held
    memory_bytes: int = 600 * MEGABYTE  # address space, with the interpreter and its libraries in it
    open_files: int = 64
    archive_entries: int = 10_000
    archive_bytes: int = 300 * MEGABYTE  # unpacked
    archive_ratio: int = 200  # unpacked to packed

    def for_size(self, size: int) -> "Limits":
        """Those of a document of so many bytes: a few of them that refer to themselves would take all the time."""
        return replace(self, cpu_seconds=min(self.cpu_seconds, LEAST_CPU_SECONDS + size // BYTES_PER_CPU_SECOND))


DEFAULT_LIMITS = Limits()


def confine(limits: Limits) -> None:
    """Hold this process, and all it may ever start, to these limits. There is no way back."""
    cap(resource.RLIMIT_AS, limits.memory_bytes)
    cap(resource.RLIMIT_CPU, limits.cpu_seconds)
    cap(resource.RLIMIT_NOFILE, limits.open_files)
    cap(resource.RLIMIT_FSIZE, 0)
    cap(resource.RLIMIT_CORE, 0)
    cap(resource.RLIMIT_NPROC, 0)  # that are started from now on; it does not bind root


def cap(kind: int, value: int) -> None:
    """Hold this process to no more of a resource than it may have anyway."""
    _, hard = resource.getrlimit(kind)
    allowed = value if hard == resource.RLIM_INFINITY else min(value, hard)
    with suppress(ValueError):  # macOS limits no address space
        resource.setrlimit(kind, (allowed, allowed))
