"""A process of its own that fetches the broker's jars: `python -m poweron_services.embedded.jar_download <repository>`.

Every jar is downloaded aside, hashed and only then moved to its place, so a killed download leaves nothing half done.
"""

import hashlib
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path, PurePosixPath

import truststore
from jgo.config import GlobalSettings
from jgo.maven import MavenContext

from poweron_services.embedded.jars import WRONG_HASH, Jar, missing

AT_ONCE = 6
TIMEOUT = 30  # seconds of silence
ASIDE = "download-"


class WrongHashError(Exception):
    """What came is not what was pinned."""


def main(repository: Path) -> None:
    truststore.inject_into_ssl()  # the machine's certificates: a company's proxy may have one of its own
    for left_over in repository.glob(f"{ASIDE}*"):
        shutil.rmtree(left_over, ignore_errors=True)
    with (
        tempfile.TemporaryDirectory(prefix=ASIDE, dir=repository, ignore_cleanup_errors=True) as aside,
        ThreadPoolExecutor(AT_ONCE) as pool,
    ):
        list(pool.map(partial(_fetch, maven(Path(aside)), repository), missing(repository)))


def maven(cache: Path) -> MavenContext:
    """Repositories that the user has configured for jgo (a mirror, say) are asked first."""
    context = MavenContext(repo_cache=cache, timeout=TIMEOUT)
    context.remote_repos = {**GlobalSettings.load().repositories, **context.remote_repos}
    return context


def _fetch(context: MavenContext, repository: Path, jar: Jar) -> None:
    *group, name, version, _ = PurePosixPath(jar.path).parts
    found = context.project(".".join(group), name).at_version(version).artifact().resolve()
    if hashlib.sha256(found.read_bytes()).hexdigest() != jar.sha256:
        raise WrongHashError(f"{found.name} does not have the expected hash.")
    place = repository / jar.path
    place.parent.mkdir(parents=True, exist_ok=True)
    found.replace(place)


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except WrongHashError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(WRONG_HASH)
