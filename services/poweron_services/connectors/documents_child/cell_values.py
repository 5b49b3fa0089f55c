"""Cell values as spreadsheet programs show them, with the decimals, percent sign or currency of their format.

Dates are written in ISO 8601, because their formats differ between countries.
"""

import datetime as dt

from poweron_services.connectors.documents_child.number_format import formatted, formatted_text

Value = str | float | bool | dt.date | dt.time | dt.timedelta


def cell_text(value: Value, code: str = "") -> str:
    """Format a value with a number format code of a workbook; "" is the general format."""
    match value:
        case bool():
            return "TRUE" if value else "FALSE"
        case float() | int():
            return formatted(value, code)
        case dt.datetime():
            return value.date().isoformat() if value.time() == dt.time() else value.isoformat(" ")
        case dt.date() | dt.time():
            return value.isoformat()
        case dt.timedelta():
            minutes, seconds = divmod(round(value.total_seconds()), 60)
            return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"
        case _:
            return formatted_text(str(value).strip(), code)
