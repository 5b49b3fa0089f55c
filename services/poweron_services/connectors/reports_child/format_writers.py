"""The writers of all formats, which are loaded before the process drops the privilege to open files."""

from collections.abc import Callable, Mapping, Sequence

from poweron_services.connectors.reports_child import composition
from poweron_services.connectors.reports_child.report import Draft, Part, Report
from poweron_services.text.provenance import marked_markdown, marked_page

Write = Callable[[Report], tuple[bytes, str]]

SAMPLE = Draft("-", "en", (Part("-", "written", "| a | b |\n| --- | --- |\n| - | 1 |"),))


def writers(formats: Sequence[str]) -> Mapping[str, Write]:
    """Load the writers of these formats, in this order; modules of other formats are not loaded."""
    return {name: _LOADERS[name]() for name in formats}


def _markdown() -> Write:
    from poweron_services.connectors.reports_child.markdown_text import markdown  # noqa: PLC0415 - as in all of these

    return lambda report: (marked_markdown(markdown(report), report.provenance).encode(), "")


def _html() -> Write:
    from poweron_services.connectors.reports_child.html_page import html  # noqa: PLC0415

    return lambda report: (marked_page(html(report), report.provenance).encode(), "")


def _docx() -> Write:
    from poweron_services.connectors.reports_child.pdf_report import Typesetter  # noqa: PLC0415
    from poweron_services.connectors.reports_child.word_document import WordWriter  # noqa: PLC0415

    writer, typesetter = WordWriter(), Typesetter()
    return lambda report: (writer.docx(report, typesetter.picture), "")


def _pdf() -> Write:
    from poweron_services.connectors.reports_child.pdf_report import Typesetter  # noqa: PLC0415

    return Typesetter().pdf


def _xlsx() -> Write:
    from poweron_services.connectors.reports_child.excel_workbook import workbook  # noqa: PLC0415

    workbook(composition.composed(SAMPLE))  # a first write, because codecs are looked up only then
    return lambda report: (workbook(report) if report.tables else b"", "")


_LOADERS: Mapping[str, Callable[[], Write]] = {
    "markdown": _markdown,
    "html": _html,
    "docx": _docx,
    "pdf": _pdf,
    "xlsx": _xlsx,
}
