"""Resource limits for reading one document."""

import resource
from contextlib import suppress
from dataclasses import dataclass, replace

MEGABYTE = 1_000_000
LEAST_CPU_SECONDS = 5  # for the smallest document
BYTES_PER_CPU_SECOND = 4_000  # of the document, for each further second


@dataclass(frozen=True, slots=True)
class ReadLimits:
    input_bytes: int = 100 * MEGABYTE
    characters: int = 100 * MEGABYTE  # of the extracted text; the rest is cut off, with a note
    whole_text: int = 5 * MEGABYTE  # bytes of a text that the reader must hold as a whole
    sections: int = 50_000
    document_seconds: float = 600.0  # for all processes that read one document
    wall_seconds: float = 120.0  # for one process, which reads some pages, or a document without pages
    cpu_seconds: int = 55  # for one process; less for small documents
    first_page: int = 1  # at which one process starts
    pages: int = 100  # that one process reads; bounds the loss if it fails, and its memory
    memory_bytes: int = 600 * MEGABYTE  # of address space, including the interpreter and its libraries
    open_files: int = 64
    archive_entries: int = 10_000
    archive_bytes: int = 300 * MEGABYTE  # unpacked
    archive_ratio: int = 200  # unpacked to packed

    def for_size(self, size: int) -> "ReadLimits":
        """Scale the CPU time to the size in bytes: a few self-referencing bytes could otherwise use all of it."""
        return replace(self, cpu_seconds=min(self.cpu_seconds, LEAST_CPU_SECONDS + size // BYTES_PER_CPU_SECOND))


DEFAULT_LIMITS = ReadLimits()


def confine(limits: ReadLimits) -> None:
    """Apply these limits to this process and all that it may start; this cannot be undone."""
    cap(resource.RLIMIT_AS, limits.memory_bytes)
    cap(resource.RLIMIT_CPU, limits.cpu_seconds)
    cap(resource.RLIMIT_NOFILE, limits.open_files)
    cap(resource.RLIMIT_FSIZE, 0)
    cap(resource.RLIMIT_CORE, 0)
    cap(resource.RLIMIT_NPROC, 0)  # no new processes from now on; root is not bound by this


def cap(kind: int, value: int) -> None:
    """Limit a resource of this process to `value`, or to its hard limit if that is lower."""
    _, hard = resource.getrlimit(kind)
    limit = value if hard == resource.RLIM_INFINITY else min(value, hard)
    with suppress(ValueError):  # macOS does not limit the address space
        resource.setrlimit(kind, (limit, limit))
