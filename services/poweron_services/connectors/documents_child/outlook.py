"""The reader of MSG: the headers, text and attachments of an Outlook message."""

import email.parser
from collections.abc import Iterator
from functools import partial
from typing import Any

from oxmsg import Message

from poweron_services.connectors.documents_child import webpage
from poweron_services.connectors.documents_child.document import Member, Unreadable
from poweron_services.connectors.documents_child.limits import ReadLimits
from poweron_services.connectors.documents_child.mail import text_of_mail
from poweron_services.connectors.documents_child.readers import Fact, Note, Part

LOADED = (email.parser,)


def opened(data: bytes, limits: ReadLimits) -> Iterator[Part | Member]:
    message = Message.load(data)
    headers = _headers(message)
    attachments = message.attachments
    yield from (Fact(name, headers[header]) for name, header in (("title", "Subject"), ("author", "From")))
    yield Fact("created", headers["Date"])
    yield Fact("attachments", str(len(attachments)) if attachments else "")
    body, html = message.body, message.html_body
    yield from text_of_mail(list(headers.items()), [body] if body else [])
    if html and not body:
        yield from webpage.read(html.encode(), limits)
    if not body and not html:
        yield Note("The message holds no text of a kind that can be read.")
    for number, attachment in enumerate(attachments, start=1):
        yield Member("attachment", attachment.file_name or str(number), 0, partial(_content, attachment))


def _headers(message: Any) -> dict[str, str]:
    moment = message.sent_date
    return {
        "From": message.sender or "",
        "To": ", ".join(f"{to.name} <{to.email_address}>" for to in message.recipients),
        "Date": moment.isoformat(" ", "minutes") if moment else "",
        "Subject": message.subject,
    }


def _content(attachment: Any) -> bytes:
    content = attachment.file_bytes
    if content is None:
        raise Unreadable(
            "is a message within the message, or only named in it; save it as a file of its own and hand that over.",
            "document_format_unknown",
        )
    return bytes(content)
