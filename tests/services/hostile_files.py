"""Two hundred files that are broken, huge or hostile, made from a seed: the same seed gives the same files."""

import gzip
import io
import json
import random
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from email.message import EmailMessage

from outlook_files import compound_file, message_of
from papers import example

COUNT, SEED = 200, 20_251_124
WHOLE = (
    *("estimate.pdf", "contract.docx", "budget.xlsx", "kickoff.pptx", "lease.odt", "sightings.ods", "release.rtf"),
    *("offer.eml", "handover.zip", "order.xml", "policy.docx", "fleet.xlsx", "handbook.html", "inventory.csv"),
)
ENDINGS = ("pdf", "docx", "xlsx", "pptx", "odt", "ods", "rtf", "eml", "msg", "zip", "xml", "png", "csv", "txt", "html")
SIGNATURES = (
    *(b"%PDF-1.7\n", b"PK\x03\x04", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", b"{\\rtf1 ", b"\x89PNG\r\n\x1a\n", b"GIF89a"),
    *(b"\xff\xd8\xff\xe0", b"II*\0", b"MM\0*", b"RIFF\0\0\0\0WEBP", b"BM\0\0\0\0\0\0\0\0", b"<?xml version='1.0'?>"),
    *(b"From: a\nMessage-ID: b\nDate: c\n", b"<!doctype html>", b"[{", b"\xff\xfe", b"\x1f\x8b"),
)
MANIFEST = b"<manifest/>"
ODF = 'xmlns:{0}="urn:oasis:names:tc:opendocument:xmlns:{0}:1.0"'.format
SPACES = " ".join(map(ODF, ("office", "text", "table")))


@dataclass(frozen=True, slots=True)
class HostileFile:
    number: int
    kind: str
    name: str
    data: bytes

    def __str__(self) -> str:
        return f"{self.number} {self.kind} {self.name}"


def hostile_files(numbers: Iterable[int] = range(COUNT), seed: int = SEED) -> Iterator[HostileFile]:
    """Those of these numbers; each has a seed of its own, so that some can be made without the others."""
    for number in numbers:
        make = MAKERS[number % len(MAKERS)]
        name, data = make(random.Random(seed + number))
        yield HostileFile(number, make.__name__.removeprefix("_"), name, data)


def zip_of(files: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", method) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return packed.getvalue()


Made = tuple[str, bytes]


def _cut_off(chance: random.Random) -> Made:
    name = chance.choice(WHOLE)
    data = example(name)
    return name, data[: chance.randrange(1, len(data))]


def _corrupted(chance: random.Random) -> Made:
    name = chance.choice(WHOLE)
    data = bytearray(example(name))
    for _ in range(chance.randrange(1, 200)):
        data[chance.randrange(len(data))] = chance.randrange(256)
    return name, bytes(data)


def _misnamed(chance: random.Random) -> Made:
    return f"a.{chance.choice(ENDINGS)}", example(chance.choice(WHOLE))


def _noise_below_a_signature(chance: random.Random) -> Made:
    return f"a.{chance.choice(ENDINGS)}", chance.choice(SIGNATURES) + chance.randbytes(chance.randrange(50_000))


def _spliced(chance: random.Random) -> Made:
    """The beginning of one document and the end of another."""
    first, second = example(chance.choice(WHOLE)), example(chance.choice(WHOLE))
    return f"a.{chance.choice(ENDINGS)}", first[: len(first) // 2] + second[len(second) // 2 :]


def _archive_bomb(chance: random.Random) -> Made:
    size = chance.choice((20_000_000, 200_000_000))
    return "bomb.zip", zip_of({f"{one}.txt": bytes(size) for one in range(chance.randrange(1, 3))})


def _archive_of_archives(chance: random.Random) -> Made:
    data = b"the bottom"
    for level in range(chance.choice((3, 30, 300))):
        data = zip_of({f"{level}.{chance.choice(('zip', 'docx'))}": data, "b.txt": b"beside it"}, zipfile.ZIP_STORED)
    return "deep.zip", data


def _archive_with_itself_many_times(chance: random.Random) -> Made:
    """A few bytes that would be millions of documents: each level holds ten of the level below."""
    data = b"text"
    for _ in range(chance.randrange(5, 9)):
        data = zip_of({f"{one}.zip": data for one in range(10)})
    return "wide.zip", data


def _archive_with_a_password(chance: random.Random) -> Made:
    data = bytearray(zip_of({"a.txt": b"secret " * 10, "b/c.csv": b"a,b\n1,2\n"}))
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = data.find(mark)
        while at >= 0:
            data[at + place] |= 1
            at = data.find(mark, at + 4)
    return f"locked.{chance.choice(('zip', 'docx'))}", bytes(data)


def _archive_of_very_many(chance: random.Random) -> Made:
    return "many.zip", zip_of({f"{one}.txt": b"" for one in range(chance.choice((9_000, 11_000)))}, zipfile.ZIP_STORED)


def _archive_that_leads_out(chance: random.Random) -> Made:
    name = chance.choice(("../../etc/passwd", "/etc/passwd", "C:\\Windows\\x", "a/../../b", "\\\\server\\x"))
    return "out.zip", zip_of({name: b"x", "good.txt": b"good"})


def _office_with_entities(chance: random.Random) -> Made:
    name, part, _ = chance.choice(OFFICE)
    bomb = b'<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;">]><l>&b;&b;</l>'
    return name, _with_part(name, part, bomb)


def _office_with_deep_xml(chance: random.Random) -> Made:
    name, part, _ = chance.choice(OFFICE)
    depth = chance.choice((1_000, 200_000))
    return name, _with_part(name, part, b"<a>" * depth + b"</a>" * depth)


def _office_with_other_xml(chance: random.Random) -> Made:
    name, part, _ = chance.choice(OFFICE)
    return name, _with_part(name, part, b"<html><body>" + chance.randbytes(20).hex().encode() + b"</body></html>")


def _office_without_a_part(chance: random.Random) -> Made:
    name, _, _ = chance.choice(OFFICE)
    with zipfile.ZipFile(io.BytesIO(example(name))) as archive:
        parts = archive.namelist()
        gone = chance.choice(parts)
        return name, zip_of({part: archive.read(part) for part in parts if part != gone})


OFFICE = [
    ("contract.docx", "word/document.xml", ""),
    ("policy.docx", "word/footnotes.xml", ""),
    ("fleet.xlsx", "xl/worksheets/sheet1.xml", ""),
    ("fleet.xlsx", "xl/styles.xml", ""),
    ("kickoff.pptx", "ppt/slides/slide1.xml", ""),
    ("lease.odt", "content.xml", ""),
    ("sightings.ods", "content.xml", ""),
]


def _with_part(name: str, part: str, content: bytes) -> bytes:
    stored = zipfile.ZIP_STORED if name.endswith(("odt", "ods")) else zipfile.ZIP_DEFLATED
    with zipfile.ZipFile(io.BytesIO(example(name))) as archive:
        return zip_of({one: content if one == part else archive.read(one) for one in archive.namelist()}, stored)


def _sheet_without_end(chance: random.Random) -> Made:
    """A workbook with a value in its last cell, and cells merged over all of it."""
    rows = '<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>'
    merged = '<mergeCells count="1"><mergeCell ref="A1:XFD1048576"/></mergeCells>' if chance.random() < 0.5 else ""
    space = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    sheet = (
        f'<worksheet {space}><sheetData><row r="1"><c r="A1"><v>1</v></c></row>{rows}</sheetData>{merged}</worksheet>'
    )
    return "wide.xlsx", _with_part("fleet.xlsx", "xl/worksheets/sheet1.xml", sheet.encode())


def _open_document_that_repeats(chance: random.Random) -> Made:
    times = chance.choice((1_000_000, 1_000_000_000))
    cell = f'<table:table-cell table:number-columns-repeated="{times}" table:number-rows-spanned="{times}"><text:p>a</text:p></table:table-cell>'
    row = f'<table:table-row table:number-rows-repeated="{times}">{cell * 20}</table:table-row>'
    kind, ending = chance.choice((("text", "odt"), ("spreadsheet", "ods")))
    body = f"<office:body><office:{kind}><table:table>{row * 20}</table:table></office:{kind}></office:body>"
    content = f"<office:document-content {SPACES}>{body}</office:document-content>".encode()
    mime = f"application/vnd.oasis.opendocument.{kind}".encode()
    files = {"mimetype": mime, "META-INF/manifest.xml": MANIFEST, "content.xml": content}
    return f"repeats.{ending}", zip_of(files, zipfile.ZIP_STORED)


def _xml_bomb(chance: random.Random) -> Made:
    laughs = "".join(f'<!ENTITY l{one} "{f"&l{one - 1};" * 10}">' for one in range(1, 10))
    outside = f'<!ENTITY x SYSTEM "{chance.choice(("file:///etc/passwd", "http://127.0.0.1/x"))}">'
    inner = chance.choice((f'<!ENTITY l0 "ha">{laughs}', outside))
    return "bomb.xml", f'<?xml version="1.0"?><!DOCTYPE r [{inner}]><r>&l9;&x;</r>'.encode()


def _deep_text(chance: random.Random) -> Made:
    depth = chance.choice((500, 100_000))
    name, begin, end = chance.choice(
        (
            ("deep.xml", b"<a>", b"</a>"),
            ("deep.html", b"<div>", b"</div>"),
            ("deep.json", b"[", b"]"),
            ("deep.rtf", b"{", b"}"),
            ("deep.json", b'{"a":', b"}"),
        )
    )
    head = {"deep.xml": b'<?xml version="1.0"?>', "deep.rtf": b"{\\rtf1 ", "deep.html": b"<html><body>"}
    return name, head.get(name, b"") + begin * depth + b"1" + end * depth


def _text_without_lines(chance: random.Random) -> Made:
    name, data = chance.choice(
        (
            ("wide.csv", b"," * 3_000_000),
            ("quoted.csv", b'"' + b"a\n" * 2_000_000),
            ("quotes.csv", b'"' * 2_000_001),
            ("one.txt", b"x" * 8_000_000),
            ("nulls.txt", b"a\0" * 1_000_000),
            ("many.html", b"<table><tr>" + b"<td colspan=50>a" * 200_000),
            ("many.xml", b"<?xml version='1.0'?><a>" + b"".join(b"<b%d/>" % one for one in range(100_000)) + b"</a>"),
            ("long.json", json.dumps([{str(one): one} for one in range(3_000)]).encode()),
        )
    )
    return name, data


def _rich_text_that_lies(chance: random.Random) -> Made:
    inside = chance.choice(
        (
            b"{\\pict\\bin999999999 " + b"x" * 1000,
            b"\\u-99999999 " * 20_000,
            b"\\'zz" * 20_000,
            b"{\\fonttbl" + b"{\\f1\\fcharset" * 20_000,
            b"{\\field{\\*\\fldinst{HYPERLINK " * 10_000,
            b"}" * 100_000,
        )
    )
    return "lies.rtf", b"{\\rtf1\\ansi\\ansicpg99999 " + inside


def _mail_of_mails(chance: random.Random) -> Made:
    depth = chance.choice((10, 3_000))
    lines = []
    for level in range(depth):
        lines += [f'Content-Type: multipart/mixed; boundary="b{level}"', "", f"--b{level}"]
    head = "From: a@b.example\nMessage-ID: <1>\nMIME-Version: 1.0\n"
    return "deep.eml", (head + "\n".join(lines) + "\nContent-Type: text/plain\n\nthe bottom\n").encode()


def _mail_of_forwarded_mails(chance: random.Random) -> Made:
    mail = _mail("the first")
    for level in range(chance.choice((3, 30))):
        outer = _mail(f"level {level}")
        outer.add_attachment(mail)
        mail = outer
    return "forwarded.eml", bytes(mail)


def _mail_with_very_many_attachments(chance: random.Random) -> Made:
    mail = _mail("See attachments.")
    for one in range(chance.choice((100, 1_000))):
        mail.add_attachment(chance.randbytes(20), maintype="application", subtype="pdf", filename=f"{one}.pdf")
    return "many.eml", bytes(mail)


def _mail_with_wild_headers(chance: random.Random) -> Made:
    wild = chance.choice(
        (b"=?utf-8?B?" * 20_000, b"(" * 50_000, b'"' + b"\\" * 50_000, b"a@" * 50_000, b"=?nowhere?Q?=ZZ?= " * 5_000)
    )
    kind = b"Content-Type: multipart/mixed; boundary=" + b"x" * 100 + b"; charset=" + wild[:5_000]
    return (
        "wild.eml",
        b"Message-ID: <1>\nMIME-Version: 1.0\nFrom: " + wild + b"\nSubject: " + wild + b"\n" + kind + b"\n\nx",
    )


def _mail(text: str) -> EmailMessage:
    mail = EmailMessage()
    mail["From"], mail["Message-ID"], mail["MIME-Version"] = "a@b.example", "<1@b.example>", "1.0"
    mail.set_content(text)
    return mail


def _message_with_loops(chance: random.Random) -> Made:
    data = bytearray(message_of("Hi", "Hello " * 200, sender="A", to="B", attachments=[("a.txt", b"x" * 9_000)]))
    for _ in range(chance.randrange(1, 30)):
        place = chance.randrange(512, len(data) - 4) & ~3
        data[place : place + 4] = struct.pack("<I", chance.randrange(60))
    return "loops.msg", bytes(data)


def _deep_compound_file(chance: random.Random) -> Made:
    tree: dict[str, object] = {"__properties_version1.0": bytes(32)}
    for level in range(chance.choice((10, 200))):
        tree = {f"folder {level}": tree, "__properties_version1.0": bytes(32)}
    return f"deep.{chance.choice(('msg', 'xls', 'doc'))}", compound_file(tree)


def _huge_picture(chance: random.Random) -> Made:
    width, height = chance.choice(((2**31 - 1, 2**31 - 1), (65_535, 65_535), (1, 2**31 - 1)))
    small = (width & 0xFFFF, height & 0xFFFF)
    chunk = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    png = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + chunk + struct.pack(">I", zlib.crc32(chunk))
    text = b"zTXt" + b"a\0\0" + zlib.compress(bytes(80_000_000))
    return chance.choice(
        (
            ("huge.png", png + struct.pack(">I", 0) + b"IDAT" + struct.pack(">I", zlib.crc32(b"IDAT"))),
            ("text.png", png + struct.pack(">I", len(text) - 4) + text + struct.pack(">I", zlib.crc32(text))),
            ("huge.gif", b"GIF89a" + struct.pack("<HHBBB", *small, 0, 0, 0) + b";"),
            ("huge.bmp", b"BM" + bytes(12) + struct.pack("<IiiHHIIiiII", 40, width, height, 1, 24, 0, 0, 0, 0, 0, 0)),
            ("loop.tiff", b"II*\0\x08\0\0\0" + struct.pack("<HHHIIHHIII", 2, 256, 4, 1, width, 257, 4, 1, height, 8)),
        )
    )


def _pages_of_nothing(chance: random.Random) -> Made:
    pages = chance.choice((1_000, 100_000))
    kids = b" ".join(b"%d 0 R" % (3 + page) for page in range(pages))
    objects = [b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Kids[" + kids + b"]/Count %d>>" % pages]
    objects += [b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]>>"] * pages
    return "nothing.pdf", _pdf(objects)


def _pdf_that_refers_to_itself(chance: random.Random) -> Made:
    objects = chance.choice(
        (
            [b"1 0 R"],
            [b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Kids[2 0 R]/Count 1>>"],
            [
                b"<</Type/Catalog/Pages 2 0 R>>",
                b"<</Type/Pages/Kids[3 0 R 3 0 R]/Count 99999999>>",
                b"<</Parent 3 0 R>>",
            ],
            [b"<</Type/Catalog/Pages 2 0 R>>", b"[" * 50_000],
        )
    )
    return "itself.pdf", _pdf(objects)


def _pdf_bomb(chance: random.Random) -> Made:
    stream = zlib.compress(zlib.compress(bytes(300_000_000), 1), 9)
    size = chance.choice((9, 2_000_000_000))
    content = b"<</Filter[/FlateDecode/FlateDecode]/Length %d>>stream\n" % len(stream) + stream + b"\nendstream"
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 %d %d]/Contents 4 0 R>>" % (size, size)
    return "bomb.pdf", _pdf([b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Kids[3 0 R]/Count 1>>", page, content])


def _pdf(objects: list[bytes]) -> bytes:
    body, places = b"%PDF-1.4\n", []
    parts = [body]
    at = len(body)
    for number, content in enumerate(objects, start=1):
        part = b"%d 0 obj\n%s\nendobj\n" % (number, content)
        places.append(at)
        at += len(part)
        parts.append(part)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    parts.append(b"xref\n0 %d\n0000000000 65535 f \n%s" % (len(objects) + 1, table))
    parts.append(b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % (len(objects) + 1, at))
    return b"".join(parts)


def _packed_again(chance: random.Random) -> Made:
    return "a.gz", gzip.compress(bytes(chance.choice((10, 50_000_000))), mtime=0)


MAKERS: list[Callable[[random.Random], Made]] = [
    *(_cut_off, _corrupted, _misnamed, _noise_below_a_signature, _spliced, _archive_bomb, _archive_of_archives),
    *(_archive_with_itself_many_times, _archive_with_a_password, _archive_of_very_many, _archive_that_leads_out),
    *(_office_with_entities, _office_with_deep_xml, _office_with_other_xml, _office_without_a_part, _sheet_without_end),
    *(_open_document_that_repeats, _xml_bomb, _deep_text, _text_without_lines, _rich_text_that_lies, _mail_of_mails),
    *(_mail_of_forwarded_mails, _mail_with_very_many_attachments, _mail_with_wild_headers, _message_with_loops),
    *(_deep_compound_file, _huge_picture, _pages_of_nothing, _pdf_that_refers_to_itself, _pdf_bomb, _packed_again),
]
