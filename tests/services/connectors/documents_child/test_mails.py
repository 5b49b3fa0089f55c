"""Mails, mailboxes and invitations as programs write them, and as they come through relays."""

import pytest
from papers import ONE_PIXEL
from test_document_formats import mail_of, text_at

from poweron_services.connectors.document_reader import extract
from poweron_services.connectors.documents_child.media_types import sniff

pytestmark = pytest.mark.req("C-05")

HEAD = "From: Ada <ada@office.example>\nTo: bo@office.example\nMessage-ID: <1@office.example>\nMIME-Version: 1.0\n"


def mixed(*parts: str) -> str:
    return (
        HEAD + "Content-Type: multipart/mixed; boundary=b\n\n" + "".join(f"--b\n{part}\n" for part in parts) + "--b--\n"
    )


def alternative(plain: str, page: str) -> bytes:
    parts = f"--b\nContent-Type: text/plain\n\n{plain}\n--b\nContent-Type: text/html\n\n{page}\n--b--\n"
    return (HEAD + f"Content-Type: multipart/alternative; boundary=b\n\n{parts}").encode()


@pytest.mark.parametrize(
    ("plain", "page", "holds", "lacks"),
    [
        (
            "Please use a program that shows HTML.",
            "<style>p {color: red}</style><p>Your train leaves at <b>14:35</b> from platform 7.</p>",
            "leaves at 14:35 from platform 7",
            "program",
        ),
        (
            "Your train leaves at 14:35 from platform 7.",
            "<p>Your train leaves at <b>14:35</b> from platform 7.</p><p>Imprint</p>",
            "leaves at 14:35 from platform 7",
            "Imprint",
        ),
    ],
)
async def test_of_two_forms_of_a_text_the_one_that_says_it_is_read(
    plain: str, page: str, holds: str, lacks: str
) -> None:
    text = (await extract(alternative(plain, page), "a.eml")).markdown()
    assert holds in text
    assert lacks not in text


@pytest.mark.parametrize("above", ["", "From relay Thu Nov 19 09:30:00 2026\n", "From relay 2026\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "cp1252"])
async def test_headers_and_names_are_read_however_they_are_encoded(above: str, encoding: str) -> None:
    names = {
        'filename="=?iso-8859-1?Q?Offer_M=FCller.txt?="': "Offer Müller.txt",
        "filename*0*=utf-8''caf%C3%A9; filename*1=.txt": "café.txt",
        "filename*0*=''caf%C3%A9; filename*1=2.txt": "café2.txt",
        'filename="Grüße.txt"': "Grüße.txt",
    }
    attached = [f"Content-Disposition: attachment; {name}\n\nText" for name in names]
    mail = (
        above
        + "Subject: Größe der Brücke in Zürich\n"
        + mixed("Content-Type: text/plain; charset=utf-8\n\nHello", *attached)
    )

    document = await extract(mail.encode(encoding), "a.eml")

    assert document.mime_type == "message/rfc822"
    assert "Subject: Größe der Brücke in Zürich" in document.sections[0].text
    assert [section.locator for section in document.sections[1:]] == [f"attachment {name}" for name in names.values()]


async def test_a_mailbox_is_read_mail_by_mail() -> None:
    mails = [
        HEAD + "Content-Transfer-Encoding: quoted-printable\n\nDie Br=C3=BCcke ist offen.\n",
        HEAD + "\nHe wrote:\n\n>From here on it rains.\n",
        mixed(
            "Content-Type: text/plain\n\nSee below.",
            "Content-Disposition: attachment; filename=a.csv\n\nItem;Price\nBread;5",
        ),
    ]
    box = "".join(f"From ada Thu Nov 19 09:30:00 2026\n{mail}\n" for mail in mails).encode()
    document = await extract(box, "all.mbox")

    assert (document.mime_type, sniff(box, "x")) == ("application/mbox", "application/mbox")
    assert text_at(document, "mail 1").endswith("Die Brücke ist offen.")
    assert text_at(document, "mail 2").endswith("He wrote:\n\nFrom here on it rains.")
    assert text_at(document, "mail 3, attachment a.csv").endswith("| Bread | 5 |")
    assert document.notes == ()


@pytest.mark.parametrize("text", [b"From here on: nothing.\n\nText", b"From Bern\nto Basel: one hour\n"])
def test_a_text_that_begins_like_a_mailbox_is_none(text: bytes) -> None:
    assert sniff(text, "a.txt") == "text/plain"


def calendar(*lines: str, method: str = "REQUEST") -> bytes:
    event = ["BEGIN:VCALENDAR", f"METHOD:{method}", "BEGIN:VEVENT", *lines, "END:VEVENT", "END:VCALENDAR"]
    return "\r\n".join(event).encode()


async def invitation(*lines: str, method: str = "REQUEST") -> str:
    return text_at(await extract(calendar(*lines, method=method), "a.ics"), "event 1")


async def test_an_invitation_says_what_when_where_how_often_and_with_whom() -> None:
    told = await invitation(
        "SUMMARY:Meeting about the new reading room and its ope",
        " ning hours",
        "DTSTART;TZID=Europe/Zurich:20261203T140000",
        "DTEND;TZID=Europe/Zurich:20261203T153000",
        "LOCATION:Room 4\\, Hall B\\nEntrance East",
        "RRULE:FREQ=WEEKLY;BYDAY=TH,FR;UNTIL=20270301T000000Z",
        "EXDATE;TZID=Europe/Zurich:20261224T140000",
        "ORGANIZER;CN=Ada:mailto:ada@office.example",
        'ATTENDEE;CN="Bo, Chief";ROLE=CHAIR:MAILTO:bo@office.example',
        "ATTENDEE:mailto:cy@office.example",
        "BEGIN:VALARM",
        "DESCRIPTION:Reminder",
        "END:VALARM",
    )
    assert told.split("\n") == [
        "### Meeting about the new reading room and its opening hours",
        "- When: 3 December 2026 14:00 to 15:30 Europe/Zurich",
        "- Where: Room 4, Hall B, Entrance East",
        "- Repeats: every Thursday and Friday, until 1 March 2027",
        "- Except on: 24 December 2026 14:00",
        "- Organizer: Ada <ada@office.example>",
        "- Invited: Bo, Chief <bo@office.example>; cy@office.example",
    ]


@pytest.mark.parametrize(
    ("lines", "when"),
    [
        (["DTSTART;VALUE=DATE:20261203", "DTEND;VALUE=DATE:20261204"], "3 December 2026, all day"),
        (["DTSTART;VALUE=DATE:20261203", "DTEND;VALUE=DATE:20261206"], "3 December 2026 to 5 December 2026, all day"),
        (["DTSTART:20261203T220000Z", "DURATION:PT3H30M"], "3 December 2026 22:00 to 4 December 2026 01:30 UTC"),
        (["DTSTART:20261203T220000"], "3 December 2026 22:00"),
        (["DTSTART:20261303T220000"], ""),
    ],
)
async def test_a_time_is_told_as_it_is_written(lines: list[str], when: str) -> None:
    text = await invitation("SUMMARY:Day", *lines)
    assert text == f"### Day\n- When: {when}".removesuffix("\n- When: ")


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ("FREQ=DAILY;COUNT=5", "every day, 5 times"),
        ("FREQ=WEEKLY;INTERVAL=2;BYDAY=MO", "every 2 weeks on Monday"),
        ("FREQ=MONTHLY;BYDAY=-1FR", "every month on the last Friday"),
        ("FREQ=MONTHLY;BYMONTHDAY=15", "every month on day 15"),
        ("FREQ=YEARLY;BYMONTH=12;BYMONTHDAY=6", "every year on day 6 in December"),
        ("FREQ=HOURLY", "FREQ=HOURLY"),
    ],
)
async def test_a_rule_is_told_in_words(rule: str, told: str) -> None:
    assert (await invitation("SUMMARY:Day", f"RRULE:{rule}")).endswith(f"- Repeats: {told}")


async def test_an_invitation_that_was_taken_back_is_told_as_cancelled() -> None:
    assert await invitation("SUMMARY:Day", method="CANCEL") == "### Day (cancelled)"


async def test_a_forwarded_mail_is_an_attachment_of_its_own() -> None:
    mail = mail_of("What do you think?")
    mail.add_attachment(mail_of("The rent is 1,150 euros.", plan__txt=b"Ground floor"))

    document = await extract(bytes(mail), "forward.eml")

    (forwarded,) = [section for section in document.sections if "1,150" in section.text]
    assert forwarded.locator.startswith("attachment ")
    assert forwarded.text.endswith("Subject: Plans\n\nThe rent is 1,150 euros.")
    assert text_at(document, f"{forwarded.locator}, attachment plan.txt") == "Ground floor"


async def test_a_mail_of_html_alone_is_read_without_the_logo_of_its_sender() -> None:
    mail = mail_of("")
    mail.set_content("<h1>Invoice</h1><p>98 euros until Friday.</p><img src='cid:logo'>", subtype="html")
    mail.add_related(ONE_PIXEL, "image", "gif", cid="<logo>")

    document = await extract(bytes(mail), "invoice.eml")

    assert "98 euros until Friday." in document.markdown()
    assert document.notes == ()


@pytest.mark.parametrize(("kind", "plain"), [("mixed", "You get this as a member."), ("alternative", " ")])
async def test_a_text_in_html_is_read_also_beside_a_plain_one_that_is_another(kind: str, plain: str) -> None:
    parts = [("html", "<p>The rent is 1,150 euros.</p>"), ("plain", plain)]
    mail = "From: a@b.example\nMessage-ID: <1>\nMIME-Version: 1.0\n" + f"Content-Type: multipart/{kind}; boundary=b\n\n"
    mail += "".join(f"--b\nContent-Type: text/{one}\n\n{text}\n" for one, text in parts) + "--b--\n"

    document = await extract(mail.encode(), "a.eml")

    assert "The rent is 1,150 euros." in document.markdown()
    assert plain.strip() in document.markdown()


async def test_of_a_text_that_comes_as_html_too_the_plain_one_is_read() -> None:
    mail = mail_of("The rent is 1,150 euros.")
    mail.add_alternative("<p>The rent is 1,150 euros.</p>", subtype="html")

    assert (await extract(bytes(mail), "a.eml")).markdown().count("1,150") == 1
