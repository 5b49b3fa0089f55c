"""The process that downloads the broker's jars: `python -m poweron_services.embedded.jar_download <repository>`.

Each jar is downloaded to a temporary folder, hashed and only then moved into place, so a killed download leaves nothing
half done.
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
TIMEOUT = 30  # seconds without data
ASIDE = "download-"


class WrongHashError(Exception):
    """A downloaded jar does not have its pinned hash."""


def main(repository: Path) -> None:
    truststore.inject_into_ssl()  # use the machine's certificates: a company proxy may have its own
    for leftover in repository.glob(f"{ASIDE}*"):
        shutil.rmtree(leftover, ignore_errors=True)
    with (
        tempfile.TemporaryDirectory(prefix=ASIDE, dir=repository, ignore_cleanup_errors=True) as aside,
        ThreadPoolExecutor(AT_ONCE) as pool,
    ):
        list(pool.map(partial(_fetch, maven(Path(aside)), repository), missing(repository)))


def maven(cache: Path) -> MavenContext:
    """Create a Maven context that first asks the repositories configured by the user for jgo, such as a mirror."""
    context = MavenContext(repo_cache=cache, timeout=TIMEOUT)
    context.remote_repos = {**GlobalSettings.load().repositories, **context.remote_repos}
    return context


def _fetch(context: MavenContext, repository: Path, jar: Jar) -> None:
    *group, name, version, _ = PurePosixPath(jar.path).parts
    file = context.project(".".join(group), name).at_version(version).artifact().resolve()
    if hashlib.sha256(file.read_bytes()).hexdigest() != jar.sha256:
        raise WrongHashError(f"{file.name} does not have the expected hash.")
    place = repository / jar.path
    place.parent.mkdir(parents=True, exist_ok=True)
    file.replace(place)


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except WrongHashError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(WRONG_HASH)
