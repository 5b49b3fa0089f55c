"""What is wrong with a bucket is said in sentences, within seconds, and no secret is told."""

import re
import time
from collections.abc import Callable

import pytest
from pytest_httpserver import HTTPServer
from s3 import BUCKET, S3
from werkzeug import Request, Response

from poweron_events.content import ContentStore
from poweron_events.errors import MissingContent, Refused, Unavailable

WORKFLOW = "7d444840-9dc0-11d1-b245-5ffdce74fad2"
SECRET = "secret-of-the-tests"
ANYTHING = re.compile(".*")
SECONDS = 15.0  # at most, on a machine that is busy with other tests


async def trouble(place: str) -> str:
    """Why nothing can be stored at the place."""
    began = time.monotonic()
    with pytest.raises((Unavailable, Refused)) as raised:
        await ContentStore.at(place).put(WORKFLOW, b"the estimate")
    assert time.monotonic() - began < SECONDS
    said = str(raised.value)
    assert SECRET not in said
    assert "\n" not in said
    assert raised.value.code == "content_store_unavailable"
    return said


@pytest.fixture
def endpoint(httpserver: HTTPServer, s3: S3, monkeypatch: pytest.MonkeyPatch) -> HTTPServer:
    monkeypatch.setenv("AWS_ENDPOINT_URL", httpserver.url_for("").rstrip("/"))
    return httpserver


def saying(status: int, code: str) -> Callable[[Request], Response]:
    body = f"<Error><Code>{code}</Code><Message>No.</Message></Error>"
    return lambda _: Response(body, status, {"Content-Type": "application/xml"})


@pytest.mark.req("R-02")
async def test_a_bucket_that_is_not_there_is_named_as_what_is_missing(s3: S3) -> None:
    said = await trouble("s3://no-such-bucket/prefix")
    assert said == (
        "The content store cannot be used. There is no such bucket: make it, or name another one in POWERON_CONTENT"
    )
    with pytest.raises(Refused, match="There is no such bucket"):
        await ContentStore.at("s3://no-such-bucket/prefix").check()
    await ContentStore.at(f"s3://{BUCKET}/prefix").check()


@pytest.mark.req("R-02")
@pytest.mark.parametrize(
    ("status", "code"), [(403, "AccessDenied"), (403, "InvalidAccessKeyId"), (401, "Unauthorized")]
)
async def test_a_bucket_that_lets_nobody_in_says_which_settings_to_check(
    status: int, code: str, endpoint: HTTPServer
) -> None:
    endpoint.expect_request(ANYTHING).respond_with_handler(saying(status, code))
    said = await trouble(f"s3://{BUCKET}")
    assert "It does not let us in: check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION" in said
    assert said.endswith(f"It says {code}")


@pytest.mark.req("R-02")
async def test_a_server_that_fails_is_asked_a_few_times_and_then_told(endpoint: HTTPServer) -> None:
    asked = list[str]()

    def fail(request: Request) -> Response:
        asked.append(request.method)
        return saying(503, "SlowDown")(request)

    endpoint.expect_request(ANYTHING).respond_with_handler(fail)
    assert "(SlowDown)" in await trouble(f"s3://{BUCKET}")
    assert 2 <= len(asked) <= 5


@pytest.mark.req("R-02")
async def test_a_server_that_is_not_there_is_unavailable(s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    assert "Error performing PUT http://127.0.0.1:1/poweron-tests/" in await trouble(f"s3://{BUCKET}")


@pytest.mark.req("R-02")
async def test_a_place_without_credentials_says_which_variables_to_set(s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    said = await trouble(f"s3://{BUCKET}")
    assert said.startswith("The content store cannot be used. No credentials were found for it: set AWS_ACCESS_KEY_ID")
    with pytest.raises(Refused, match="No credentials were found"):
        await ContentStore.at(f"s3://{BUCKET}").check()


@pytest.mark.req("R-02")
async def test_a_server_without_conditional_writes_is_refused(endpoint: HTTPServer) -> None:
    """It takes what is there already: two processes could make two keys for one workflow."""
    endpoint.expect_request(ANYTHING, method="PUT").respond_with_data("", headers={"ETag": '"1"'})
    assert "It does not know conditional writes (`If-None-Match`)" in await trouble(f"s3://{BUCKET}")


async def test_what_is_not_in_a_bucket_is_missing_and_no_trouble(s3: S3) -> None:
    store = ContentStore.at(f"s3://{BUCKET}/prefix")
    for call in (store.get, store.size):
        with pytest.raises(MissingContent, match="has no content"):
            await call(WORKFLOW, "ab" * 32)
