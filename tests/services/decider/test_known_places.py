"""Addresses and paths in parameters of any action: which there are, and which a workflow knows (X-01, S4)."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from processor_time import within

from builders import document
from poweron_events.catalog import CATALOG, ActionSpec
from poweron_events.fold.state import ChatMessage
from poweron_services.connectors.mcp.server_list import configured_places_of, read_servers
from poweron_services.decider.address_provenance import KnownPlaces, Place, check_places, places, takes_addresses
from poweron_services.decider.validation import NotAllowed

URI = {"type": "string", "format": "uri"}
TEXT = {"type": "string"}


def named(properties: dict[str, Any], **given: Any) -> list[tuple[str, str]]:
    spec = ActionSpec("files.read", {"properties": properties}, "pure", 1_000)
    return [(place.kind, place.value) for place in places(given, spec)]


@pytest.mark.req("X-01")
@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (URI, "x"),
        ({"type": "string", "format": "uri-reference"}, "x"),
        ({"type": "string", "format": "iri"}, "x"),
        ({"type": "string", "format": "url"}, "x"),
        ({"anyOf": [URI, {"type": "null"}]}, "x"),
        ({"oneOf": [{"allOf": [URI]}, {"type": "integer"}]}, "x"),
        ({"type": "array", "items": URI}, ["x"]),
        ({"type": "array", "prefixItems": [TEXT, URI]}, ["fine", "x"]),
        (
            {"type": "object", "properties": {"there": {"type": "object", "properties": {"it": URI}}}},
            {"there": {"it": "x"}},
        ),
        ({"type": "object", "additionalProperties": URI}, {"any": "x"}),
        ({"if": {"type": "string"}, "then": URI}, "x"),
        ({"$ref": "#/$defs/Uri"}, "x"),
    ],
)
def test_an_address_is_found_wherever_the_schema_says_uri(schema: Any, value: Any) -> None:
    spec = ActionSpec("a.b", {"properties": {"it": schema}, "$defs": {"Uri": URI}}, "pure", 1_000)
    assert [place for place in places({"it": value}, spec) if place.value == "x"] == [Place("address", "it", "x")]


@pytest.mark.req("X-01")
@pytest.mark.parametrize(
    "name",
    [
        *("path", "paths", "file", "files", "filename", "fileName", "file_name", "source_path", "outputDir", "folder"),
        *("directories", "workingDirectory", "cwd", "PATH", "repo-path", "filePath"),
    ],
)
def test_a_path_is_told_by_a_word_of_its_name(name: str) -> None:
    assert named({name: TEXT}, **{name: "x"}) == [("path", "x")]
    assert named({name: {"type": "array"}}, **{name: ["x", {"why": 1}]}) == [("path", "x")]
    assert named({"all": {}}, all=[{name: "x"}]) == [("path", "x")]


@pytest.mark.req("X-01")
def test_other_words_name_a_path_where_the_value_looks_like_one() -> None:
    assert named({}, source="/a/b", destination="news", target="C:\\x", root="~", file_type="csv", input="a/b.txt") == [
        ("path", "/a/b"),
        ("path", "C:\\x"),
        ("path", "~"),
        ("path", "a/b.txt"),
    ]
    assert named({}, url="example.org", links=["https://a.example"], file="https://a.example/x") == [
        ("address", "example.org"),
        ("address", "https://a.example"),
        ("address", "https://a.example/x"),
    ]


@pytest.mark.parametrize(
    "given",
    [
        {"profile": "x", "filed": "a/b", "pathology": "a/b"},
        {"query": "a/b https://a.example", "max_files": 3, "fileType": "pdf", "path": " "},
    ],
)
def test_what_only_sounds_like_it_is_no_path(given: Any) -> None:
    assert named({}, **given) == []


def test_what_the_schema_offers_itself_is_nobodys_invention() -> None:
    assert named({"path": {"default": "."}, "dir": {"enum": ["in", "out"]}}, path=".", dir="in") == []
    assert named({"path": {"default": "."}}, path="..") == [("path", "..")]


def test_none_of_our_own_actions_takes_a_path() -> None:
    filled = {name: "a/b" for spec in CATALOG.values() for name in spec.properties}
    assert [places(filled, spec) for spec in CATALOG.values()] == [()] * len(CATALOG)
    assert not any(map(takes_addresses, CATALOG.values()))


def said(text: str, *, links: tuple[str, ...] = (), names: tuple[str, ...] = ()) -> ChatMessage:
    documents = tuple(map(document, names))
    return ChatMessage(
        seq=0, time_ms=0, kind="workflow_start", status="step", round=1, message=text, links=links, documents=documents
    )


KNOWN = replace(
    KnownPlaces.of(
        [
            said(
                "Read /data/in/a.txt and db://shop/prices, and what is below 'my files/2026'. Also https://a.example/x.",
                links=("https://linked.example/y", "file:///srv/z.txt"),
                names=("b.txt",),
            )
        ],
        configured_places=frozenset({"-y", "docs/examples/notes/", "https://set.example/api"}),
    ),
    results=(
        'Allowed directories:\n/srv/docs\n[FILE] c d.txt\n[DIR] sub\n{"name": "e.txt"}\n/srv/docs/sub/f.txt:\nText.',
    ),
)


@pytest.mark.req("X-01")
@pytest.mark.parametrize(
    "path",
    [
        *("/data/in/a.txt", "my files/2026", "b.txt", "c d.txt", "docs/examples/notes", "docs/examples/notes/"),
        *("/srv/docs", "/srv/docs/", "/srv/docs/sub/f.txt", "/srv/docs/c d.txt", "/srv/docs/sub/e.txt", "sub"),
        *("docs/examples/notes/sub/e.txt", "file:///srv/z.txt", "file:///srv/docs/e.txt"),
    ],
)
def test_a_path_is_known_as_a_whole_or_as_a_known_folder_with_names_that_were_told(path: str) -> None:
    check_places([Place("path", "path", path)], KNOWN)


@pytest.mark.req("X-01")
@pytest.mark.parametrize(
    "path",
    [
        *(
            "/data/in/a",
            "/data/in",
            "/data/in/b",
            "/data",
            "/",
            "~",
            "~/.ssh/id_rsa",
            ".",
            "..",
            "/etc/passwd",
            "id_rsa",
        ),
        *("/srv/docs/../../etc/passwd", "/srv/docs/secret.txt", "my files/2027", "srv/docs/e.txt"),
        *("docs/examples", "file:///etc/passwd", "db://shop", "db://shop/prices/all", "/srv/docs/SECRET"),
    ],
)
def test_a_path_that_a_model_made_up_is_refused_and_not_repeated(path: str) -> None:
    with pytest.raises(NotAllowed) as refused:
        check_places([Place("path", "path", path)], KNOWN)
    assert refused.value.code == "path_unknown"
    assert str(refused.value) == (
        "What 'path' names stands neither in the request nor in a result of these actions; "
        "use what does, word for word, or list or search first."
    )


@pytest.mark.req("X-01")
def test_the_settings_make_known_what_they_hand_to_a_server_and_to_no_other_one() -> None:
    example = Path(__file__).parents[3] / "docs" / "examples" / "mcp.json"
    configured_places = configured_places_of(read_servers(example, {}))
    club = Place("path", "path", "docs/examples/club")
    check_places([club], KnownPlaces.of([], configured_places["files"]))
    with pytest.raises(NotAllowed):
        check_places([club], KnownPlaces.of([], configured_places.get("other", frozenset())))


@pytest.mark.req("S4")
@pytest.mark.req("X-01")
def test_an_address_is_known_as_it_is_for_actions_of_the_web() -> None:
    known = (
        "https://a.example/x",
        "a.example/x",
        "https://linked.example/y#z",
        "https://set.example/api",
        "db://shop/prices",
    )
    check_places([Place("address", "url", address) for address in known], KNOWN)
    for made_up in ("https://a.example/x?q=SECRET", "https://a.example/", "a.example", "http://set.example/api"):
        with pytest.raises(NotAllowed) as refused:
            check_places([Place("address", "url", made_up)], KNOWN)
        assert refused.value.code in ("address_unknown", "path_unknown")
        assert "SECRET" not in str(refused.value)


@pytest.mark.req("X-06")
def test_long_results_and_many_paths_take_no_long_time() -> None:
    known = replace(KNOWN, results=("/srv/docs " * 100_000,))
    with within(3):
        for number in range(20):
            assert not known.holds(Place("path", "path", f"/srv/docs/{'x/' * 200}{number}"))


@pytest.mark.req("X-01")
@pytest.mark.parametrize("path", ["a", "/a" * 20_000, "a/" * 2_000])
def test_a_result_that_repeats_a_name_without_end_costs_little_time(path: str) -> None:
    known = KnownPlaces((), frozenset(), frozenset(), results=("a" * 1_000_000,))
    with within(0.4):
        assert not known.holds(Place("path", "path", path))
