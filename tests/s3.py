"""An S3 server of this machine: moto's, which knows conditional writes and uploads in parts."""

import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.error import URLError
from urllib.request import Request, urlopen

START_TIMEOUT = 60.0  # seconds
BUCKET = "poweron-tests"


@dataclass(frozen=True)
class S3:
    """Where the server is, and what its clients have in their environment."""

    endpoint: str

    @property
    def environment(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": "tests",
            "AWS_SECRET_ACCESS_KEY": "secret-of-the-tests",
            "AWS_REGION": "us-east-1",
        }

    def put(self, path: str = "") -> None:
        """Make a bucket, or something in it."""
        with urlopen(Request(f"{self.endpoint}/{path}", method="PUT"), timeout=10):
            pass


@contextmanager
def s3_server() -> Generator[S3, None, None]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-c", "from moto.server import main; main()", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        server = S3(f"http://127.0.0.1:{port}")
        _await_bucket(server, process)
        yield server
    finally:
        process.terminate()
        process.wait()


def _await_bucket(server: S3, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + START_TIMEOUT
    while True:
        try:
            server.put(BUCKET)
        except URLError:
            assert process.poll() is None, "the S3 server ended"
            assert time.monotonic() < until, "the S3 server does not start"
            time.sleep(0.1)
        else:
            return
