"""Writes the documents of this folder that no program at hand saves: a message of Outlook and open slides."""

import io
import sys
import zipfile
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
sys.path.append(str(HERE.parent / "services"))

from outlook_files import message_of  # noqa: E402 - found only now

BODY: Final = """Dear Ines,

the crane was inspected on May 6, 2025. The rope has to be replaced before the summer; the new one costs 1,180.00 EUR.
The inspection plate is valid until May 2027.

Kind regards, Tomas
"""
ROPES: Final = b"rope,length,load\nR-12,40 m,3.2 t\nR-16,60 m,5.4 t\n"
SPACES: Final = " ".join(
    f'xmlns:{prefix}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
    for prefix, name in [("draw", "drawing"), *((name, name) for name in ("office", "presentation", "text"))]
)
BOX: Final = "<draw:frame><draw:text-box>{}</draw:text-box></draw:frame>".format
PARAGRAPH: Final = "<text:p>{}</text:p>".format
SLIDES: Final = (
    ("Night tour of the observatory", "The tour begins at 21:40 at the east gate."),
    ("Tickets", "A ticket costs 14 EUR, for students 9 EUR."),
)
NOTES: Final = "If it rains, the tour is moved to the planetarium."


def crane() -> bytes:
    return message_of("Crane inspection", BODY, sender="Tomas", to="Ines", attachments=[("ropes.csv", ROPES)])


def tour() -> bytes:
    pages = [BOX("".join(map(PARAGRAPH, slide))) for slide in SLIDES]
    pages[-1] += f"<presentation:notes>{BOX(PARAGRAPH(NOTES))}</presentation:notes>"
    body = "".join(f"<draw:page>{page}</draw:page>" for page in pages)
    content = f"<office:document-content {SPACES}><office:body><office:presentation>{body}</office:presentation></office:body></office:document-content>"
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, text in (
            ("mimetype", "application/vnd.oasis.opendocument.presentation"),
            ("META-INF/manifest.xml", "<manifest/>"),
            ("content.xml", content),
        ):
            archive.writestr(zipfile.ZipInfo(name), text)
    return packed.getvalue()


if __name__ == "__main__":
    (HERE / "crane.msg").write_bytes(crane())
    (HERE / "tour.odp").write_bytes(tour())
