"""Texts that a JSON reader may stumble over, made systematically; and records of ours with such a text in some place.

`y` is JSON by RFC 8259, `n` is not, `i` is left to each reader (depth, size of numbers, half surrogates).
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

Standing = Literal["y", "n", "i"]
MEGABYTE = 1_000_000


@dataclass(frozen=True)
class Text:
    """Bytes that stand where a JSON value is expected, and what the standard says of them."""

    standing: Standing
    raw: bytes


def _named(prefix: str, standing: Standing, texts: Mapping[str, bytes]) -> dict[str, Text]:
    return {f"{prefix}: {name}": Text(standing, raw) for name, raw in texts.items()}


def _as_they_are(prefix: str, standing: Standing, *texts: str) -> dict[str, Text]:
    return {f"{prefix}: {text}": Text(standing, text.encode()) for text in texts}


# --- numbers ------------------------------------------------------------------------------------------

NUMBERS: Final = {
    **_as_they_are("number", "y", "0", "-1", "123", "9007199254740993", "-9223372036854775808", "18446744073709551615"),
    **_as_they_are("number", "y", "-0", "-0.0", "0e1", "0E+1", "1e5", "1E5", "1e-5", "20e1", "1.0", "0.1", "1.5e+9"),
    **_as_they_are("number", "y", "123.456e78", "-123123e-100000", "0.00000000000000000000000000000000000000000001"),
    **_as_they_are(
        "number", "i", "18446744073709551616", "-9223372036854775809", "1e308", "1e309", "-1e9999", "1e-400"
    ),
    **_as_they_are("number", "i", "123e65", "0.4e00669999999999999999999999999999999999999999999999999999999999999"),
    **_named("number", "i", {"400 digits": b"9" * 400, "a million digits": b"1" * MEGABYTE}),
    **_named("number", "i", {"a million decimals": b"0." + b"3" * MEGABYTE, "an exponent": b"1e" + b"9" * 100_000}),
    **_named("number", "i", {"a million negative digits": b"-" + b"7" * MEGABYTE}),
    **_as_they_are("number", "n", "+1", "-", "--1", "-a", "- 1", "01", "-01", "00", "012", "-012", "1_000", "1,000"),
    **_as_they_are("number", "n", ".5", "-.5", "1.", "-1.", "1.e1", ".e1", "1e", "1E+", "1e-", "0e", "0.1.2", "1e1e1"),
    **_as_they_are(
        "number", "n", "0x1F", "0b1", "0o7", "1F", "1n", "1L", "1e0x2", "$1", "1%", "1/2", "2 ** 8", "1 000"
    ),
    **_as_they_are("number", "n", "NaN", "-NaN", "nan", "Infinity", "-Infinity", "+Infinity", "inf", "-inf", "Inf"),
    **_as_they_are("number", "n", "\uff11", "\u0661", "1\u0660", "\u2212" + "1", "\u00bd", "\u221e", "1\u00a0"),
}

# --- literals and structures ----------------------------------------------------------------------------

STRUCTURES: Final = {
    **_as_they_are("structure", "y", "null", "true", "false", "[]", "{}", "[[]]", "[{}]", '{"":0}', '{"a":[]}', '""'),
    **_as_they_are("structure", "y", " [ ] ", "[1\n,\t2\r]", "[null, 1]", '{"a" : 1}', '{"b":1,"a":2}', "[false]"),
    **_as_they_are("structure", "y", '{"a":1,"a":1}', '{"a":1,"a":2}', '{"a":{"b":1,"b":2}}', '{"\\u0061":1,"a":1}'),
    **_as_they_are("structure", "y", '{"__proto__":{}}', '{"__class__":"os.system"}', '{"$ref":"#"}', '{"toString":1}'),
    **_as_they_are("structure", "n", "nul", "True", "FALSE", "None", "undefined", "nulll", "tru", "nan", "yes", "a"),
    **_as_they_are("structure", "n", "[", "]", "{", "}", "[1", "[1,", "[,", "[,1]", "[1,]", "[1,,2]", "[1 2]", "[]]"),
    **_as_they_are("structure", "n", "{]", "[}", '{"a"', '{"a":', '{"a":}', '{"a":1', '{"a":1,', '{"a":1,}', "{a:1}"),
    **_as_they_are("structure", "n", "{'a':1}", "{1:1}", "{null:1}", '{"a",1}', '{"a":1;"b":2}', '{"a":1 "b":2}'),
    **_as_they_are("structure", "n", '{,"a":1}', '{"a"::1}', '{"a":1,,"b":2}', '{"a":1}}', "{[]:1}", '{:"b"}', "{{}}"),
    **_as_they_are("structure", "n", "[1]//c", "[1]/* c */", "/**/1", "#1", "<null>", "[1:2]", "(1)", "[1;2]", "*"),
    **_as_they_are("structure", "n", "[] []", "1 2", "{}{}", "nullnull", '"a""b"', "[][", "1]", "]1", "[-", '["', "["),
    **_as_they_are(
        "structure", "n", "\u2060[]", "[\u000b1]", "[\u000c]", "[\u00a0]", "[\u3000]", "\u2028[]", "[\u200b]"
    ),
    **_as_they_are("structure", "n", "${1+1}", "{{7*7}}", "'; DROP TABLE workflows; --", "%s%n", "../../etc/passwd"),
    **_named("structure", "n", {"nothing": b"", "a space": b" ", "a NUL": b"\0", "NULs around": b"\0{}\0"}),
}

# --- texts ----------------------------------------------------------------------------------------------

_ESCAPED = (r"\"", r"\\", r"\/", r"\b", r"\f", r"\n", r"\r", r"\t", r"\u0041", r"\u0000", r"\uFFFF", r"\uD834\uDD1E")
_BADLY_ESCAPED = (
    *(r"\a", r"\v", r"\0", r"\x41", r"\'", r"\U0001F600", r"\u", r"\u00", r"\u00g0", r"\u 041", r"\u-041", r"\u+041"),
    *("\\", "\\\\\\", "\\\n", r"\ud83d\u", r"\ud83d\u00", r"\ud83d\x", "\\\U0001f600", r"\N{BULLET}", r"\1", r"\8"),
)
_HALF_SURROGATES = (
    r"\uD800",
    r"\uDFFF",
    r"\uD800\uD800",
    r"\uDC00\uD800",
    r"\uD834x",
    r"\uDd1ea",
    r"x\uDBFF",
    r"\uDBFF\u0041",
)
_PECULIAR = {
    "DEL": "\x7f",
    "C1": "\x85",
    "no-break space": "\xa0",
    "byte order mark": "\ufeff",
    "line separator": "\u2028",
    "right-to-left": "\u202eabc",
    "zero width joiners": "\u200d" * 40,
    "stacked marks": "e" + "\u0301" * 500,
    "not composed": "e\u0301",
    "Turkish i": "\u0130\u0131",
    "private": "\ue000\uf8ff",
    "no characters": "\ufdd0\uffff\U0001ffff\U0010ffff",
    "beyond the first plane": "\U0001f600\U00020000",
    "a family": "\U0001f469\u200d\U0001f469\u200d\U0001f467",
    "a path": "../../../../etc/passwd",
    "a format": "%s%s%n{0}{x}",
    "a template": "{{ 7 * 7 }}${jndi:ldap://x}",
    "a statement": "'; DROP TABLE records; --",
    "a script": "<script>alert(1)</script>",
    "a line of a log": '\\n{\\"level\\":\\"critical\\"}',
    "a megabyte": "x" * MEGABYTE,
    "a megabyte of three bytes each": "\u20ac" * (MEGABYTE // 3),
    "a megabyte of escapes": r"\u0041" * (MEGABYTE // 6),
}
TEXTS: Final = {
    **_named("text", "y", {text: b'"' + text.encode() + b'"' for text in ("", " ", "a", "'", "/", *_ESCAPED)}),
    **_named("text", "y", {name: f'"{text}"'.encode() for name, text in _PECULIAR.items()}),
    **_named("text", "i", {text: b'"' + text.encode() + b'"' for text in _HALF_SURROGATES}),
    **_named("text", "n", {text: b'"' + text.encode() + b'"' for text in _BADLY_ESCAPED}),
    **_named("text", "n", {f"control {code}": b'"' + bytes([code]) + b'"' for code in range(32)}),
    **_as_they_are(
        "text", "n", '"', '"a', 'a"', "'a'", '"a"b', '"a" "b"', "`a`", "\u201ca\u201d", '"""a"""', 'b"a"', "a"
    ),
}

# --- bytes that are no UTF-8 ------------------------------------------------------------------------------

_NO_UTF8 = {
    "a lone continuation": b"\x80",
    "a lone start": b"\xc3",
    "two starts": b"\xc3\xc3",
    "overlong slash": b"\xc0\xaf",
    "overlong NUL": b"\xc0\x80",
    "overlong in three": b"\xe0\x80\xaf",
    "overlong in four": b"\xf0\x80\x80\xaf",
    "cut after two": b"\xe2\x82",
    "cut after three": b"\xf0\x9f\x98",
    "a surrogate": b"\xed\xa0\x80",
    "a pair of surrogates": b"\xed\xa0\xbd\xed\xb8\x80",
    "beyond Unicode": b"\xf4\x90\x80\x80",
    "five bytes": b"\xf8\x88\x80\x80\x80",
    "six bytes": b"\xfc\x84\x80\x80\x80\x80",
    "FE": b"\xfe",
    "FF": b"\xff",
    "Latin-1": "caf\xe9".encode("latin-1"),
    "cp1252 quotes": b"\x93a\x94",
    "Shift JIS": "\u65e5\u672c".encode("shift_jis"),
    "a megabyte of FF": b"\xff" * MEGABYTE,
}
_WRITTEN = ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be", "utf-8-sig", "utf-7", "cp037")
_FOREIGN = {
    "gzip": b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xab\xae\x05\x00C\xbf\xa6\xa3\x02\x00\x00\x00",
    "zstd": b"\x28\xb5\x2f\xfd\x04\x00\x11\x00\x00{}",
    "a schema registry's frame": b'\x00\x00\x00\x00\x07{"a":1}',
    "Avro": b"Obj\x01\x04\x14avro.codec\x08null",
    "protobuf": b"\x0a\x03abc\x10\x96\x01",
    "MessagePack": b"\x82\xa1a\x01\xa1b\x02",
    "CBOR": b"\xa2aa\x01ab\x02",
    "BSON": b"\x0c\x00\x00\x00\x10a\x00\x01\x00\x00\x00\x00",
    "pickle": b"\x80\x04\x95\x0b\x00\x00\x00\x00\x00\x00\x00}\x94\x8c\x01a\x94K\x01s.",
    "an ELF": b"\x7fELF\x02\x01\x01" + bytes(9),
    "a ZIP": b"PK\x05\x06" + bytes(18),
    "a PDF": b"%PDF-1.7\n%\xe2\xe3\xcf\xd3",
    "XML": b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>',
    "YAML": b"a: 1\nb: [2]\n",
    "lines of JSON": b'{"a":1}\n{"a":2}\n',
    "a sequence of JSON": b'\x1e{"a":1}\n',
    "all bytes": bytes(range(256)),
}
BYTES: Final = {
    **_named("bytes", "n", _NO_UTF8),
    **_named("bytes", "n", {f"{name} in a text": b'"' + raw + b'"' for name, raw in _NO_UTF8.items()}),
    **_named("bytes", "n", {f"{name} in a list": b"[" + raw + b"]" for name, raw in _NO_UTF8.items()}),
    **_named(
        "bytes",
        "n",
        {f"JSON as {encoding}": '{"a":1}'.encode(encoding) for encoding in _WRITTEN if encoding != "utf-7"},
    ),
    **_named("bytes", "n", {"utf-7": b"{+ACI-a+ACI-:1}"}),
    **_named("bytes", "n", _FOREIGN),
    **_named("bytes", "n", {f"the byte {code}": bytes([code]) for code in range(256) if chr(code) not in "0123456789"}),
}

# --- depth and size ---------------------------------------------------------------------------------------


def _nested(depth: int, opening: bytes, inner: bytes, closing: bytes) -> bytes:
    return opening * depth + inner + closing * depth


_DEPTHS = (16, 64, 253, 254, 255, 256, 257, 1_022, 1_023, 1_024, 1_025, 10_000, 100_000)
SIZES: Final = {
    **_named("depth", "i", {f"{depth} lists": _nested(depth, b"[", b"", b"]") for depth in _DEPTHS}),
    **_named("depth", "i", {f"{depth} objects": _nested(depth, b'{"a":', b"1", b"}") for depth in _DEPTHS}),
    **_named("depth", "i", {f"{depth} of both": _nested(depth, b'[{"a":', b"1", b"}]") for depth in _DEPTHS}),
    **_named("depth", "n", {f"{depth} lists, open": b"[" * depth for depth in _DEPTHS}),
    **_named("depth", "n", {f"{depth} objects, open": b'{"":' * depth for depth in _DEPTHS}),
    **_named("depth", "n", {f"{depth} of both, crossed": _nested(depth, b'[{"":', b"1", b"]}") for depth in _DEPTHS}),
    **_named(
        "size",
        "y",
        {"a megabyte of spaces": b" " * MEGABYTE + b"1", "an empty megabyte": b"[" + b" " * MEGABYTE + b"]"},
    ),
    **_named("size", "y", {"200,000 nulls": b"[" + b"null," * 199_999 + b"null]"}),
    **_named("size", "y", {"300,000 empty objects": b"[" + b"{}," * 299_999 + b"{}]"}),
    **_named("size", "y", {"80,000 keys": b"{" + b",".join(b'"%06d":0' % n for n in range(80_000)) + b"}"}),
    **_named("size", "y", {"one key 150,000 times": b"{" + b",".join([b'"a":0'] * 150_000) + b"}"}),
    **_named("size", "y", {"a key of a megabyte": b'{"' + b"k" * MEGABYTE + b'":0}'}),
    **_named("size", "y", {"250,000 floats": b"[" + b"1.1," * 249_999 + b"1.1]"}),
    **_named(
        "size",
        "n",
        {"a megabyte of commas": b"[" + b"," * MEGABYTE + b"]", "a megabyte of quotes": b'"' * (MEGABYTE + 1)},
    ),
    **_named(
        "size", "n", {"a megabyte of backslashes": b'"' + b"\\" * (MEGABYTE + 1) + b'"', "zeros": bytes(MEGABYTE)}
    ),
}

ALL: Final[Mapping[str, Text]] = {**NUMBERS, **STRUCTURES, **TEXTS, **BYTES, **SIZES}


def is_canonical(raw: bytes) -> bool:
    """Whether this is JSON without floats in the one form that we write, as the standard library sees it."""
    try:
        value = json.loads(raw.decode(), parse_float=_refuse, parse_constant=_refuse)
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode() == raw
    except (ValueError, RecursionError):
        return False


def _refuse(text: str) -> None:
    raise ValueError(text)


# --- records with such a text in some place -----------------------------------------------------------------

_HOLE = '"the hole"'


def _with_a_hole(attributes: Mapping[str, Any], path: tuple[str, ...]) -> tuple[bytes, bytes]:
    """What comes before and after the value at `path`."""
    whole: dict[str, Any] = json.loads(json.dumps(attributes))
    place = whole
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = json.loads(_HOLE)
    written = json.dumps(whole, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    before, _, after = written.partition(_HOLE)
    return before.encode(), after.encode()


def placed(
    attributes: Mapping[str, Any], paths: tuple[tuple[str, ...], ...], texts: Mapping[str, Text] = ALL
) -> Iterator[tuple[str, Text, bytes]]:
    """Every text in every place of a record: a name, the text and the record."""
    for path in paths:
        before, after = _with_a_hole(attributes, path)
        for name, text in texts.items():
            yield f"{name[:80]} as {'.'.join(path)}", text, before + text.raw + after


def doubled(attributes: Mapping[str, Any]) -> Iterator[tuple[str, bytes]]:
    """The record with each of its attributes twice: the same value, and another one before and after it."""
    for name, value in attributes.items():
        pair = f'"{name}":{json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)}'
        whole = json.dumps(attributes, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        for what, more in (
            ("the same", f"{pair},{pair}"),
            ("before", f'"{name}":0,{pair}'),
            ("after", f'{pair},"{name}":0'),
        ):
            yield f"{name} twice, {what}", whole.replace(pair, more, 1).encode()


def cut(record: bytes, step: int = 7) -> Iterator[tuple[str, bytes]]:
    """The record's beginning, of many lengths."""
    for length in range(0, len(record), step):
        yield f"the first {length} bytes", record[:length]
