"""What the example documents say: every company, person and number is invented."""

from decimal import Decimal
from typing import Any

PARTS = [
    ("Rear bumper cover, primed", 1, Decimal("462.00")),
    ("Tail lamp assembly, left", 1, Decimal("318.50")),
    ("Bumper energy absorber", 1, Decimal("94.75")),
    ("Retainer and clip kit", 2, Decimal("12.40")),
]
LABOR = [
    ("Replace rear bumper cover", Decimal("2.5"), Decimal("68.00")),
    ("Repair dent in left quarter panel", Decimal("3.0"), Decimal("68.00")),
    ("Refinish bumper cover and quarter panel", Decimal("4.2"), Decimal("64.00")),
    ("Calibrate rear camera and radar", Decimal("1.0"), Decimal("110.00")),
]
MATERIALS = ("Paint materials", Decimal("4.2"), Decimal("38.00"))
DISPOSAL = Decimal("6.50")
SALES_TAX = Decimal("0.089")
REPAIRED = (
    "Rear-end collision: the rear bumper cover and the left tail lamp were replaced, the dent in the left quarter "
    "panel was repaired, cover and panel were refinished in Autumn Green, and the rear camera was calibrated."
)
TERMS = {
    "Payment": (
        "The customer pays the deductible of $500.00 when the vehicle is collected. The insurer pays the rest within "
        "15 days of the invoice. We take cards, checks and bank transfers."
    ),
    "Warranty": (
        "Our paint and body work is guaranteed for as long as you own the vehicle. New parts carry the warranty of "
        "their maker, which is 24 months for every part in this estimate."
    ),
    "Additional damage": (
        "Damage that only shows once parts are off the vehicle is not in this estimate. We stop, photograph it and "
        "ask you and your insurer before we do any work that is not listed here."
    ),
    "Storage": "Storage is free for three days after we tell you the vehicle is ready; then it is $45.00 per day.",
    "Validity": "The prices of this estimate hold for 30 days from its date.",
}


WORK_SUMMARY = (
    "Ms. Okafor's Outback was struck from behind while standing at a light on March 11, 2025. The frame was "
    "measured and is straight. All work in this estimate was finished on March 21, 2025, and the vehicle "
    "passed a road test of 12 miles."
)

CONTRACT: list[tuple[str, list[str]]] = [
    (
        "1. Parties",
        [
            (
                "This contract is made on January 6, 2025 between Larkspur Dental Group, 27 Mill Lane, Ashford "
                "(the Customer) and Brightwater Cleaning Ltd., 5 Quay Road, Ashford (the Provider)."
            ),
            "The Customer is represented by Dr. Helen Marsh, the Provider by its managing director Tomas Reyes.",
        ],
    ),
    (
        "2. Services",
        [
            "The Provider cleans the practice rooms of the Customer on every working day after 7 p.m.",
            "Windows are cleaned inside and outside four times a year, in the last week of each quarter.",
        ],
    ),
    (
        "3. Term",
        [
            "The contract begins on February 1, 2025 and runs for 24 months, until January 31, 2027.",
            "It is extended by 12 months each time unless one party gives notice.",
        ],
    ),
    (
        "4. Notice period",
        [
            "Either party may end the contract with a notice period of three months to the end of the term.",
            "Notice must be given in writing; an e-mail is not enough.",
            "If an invoice stays unpaid for 45 days, the Provider may end the contract within 14 days.",
        ],
    ),
    (
        "5. Payment",
        [
            "The Provider sends one invoice at the end of each month. It is due within 30 days.",
            "Late payments bear interest of 1.5 percent per month.",
        ],
    ),
    (
        "6. Liability",
        [
            "The Provider is liable for damage to rooms and equipment up to $250,000 per event.",
            "Neither party is liable for lost profit. The Provider is insured with Northgate Mutual, policy NM-77120.",
        ],
    ),
    ("7. Governing law", ["The law of the State of Oregon applies. The court of Ashford decides disputes."]),
]
FEES = [("Daily cleaning", 2150), ("Window cleaning", 180), ("Supplies", 95)]  # dollars per month

BUDGET = {
    "Engineering": (412_000, 418_500, 425_000, 431_500),
    "Marketing": (96_000, 128_000, 84_500, 141_500),
    "Sales": (187_500, 192_000, 196_500, 214_000),
    "Operations": (143_250, 143_250, 147_800, 147_800),
    "Human Resources": (58_400, 61_200, 58_400, 66_000),
}
HEADCOUNT = {
    "Engineering": (31, 34),
    "Marketing": (8, 9),
    "Sales": (14, 16),
    "Operations": (11, 11),
    "Human Resources": (4, 5),
}
QUARTERS = ["Q1", "Q2", "Q3", "Q4"]

INVENTORY = [
    ("sku", "product", "warehouse", "quantity", "reorder_level", "unit_price", "last_counted"),
    ("TR-1040", "Trail backpack 40 l", "Reno", 126, 60, "89.50", "2025-02-03"),
    ("TR-1065", "Trail backpack 65 l", "Reno", 48, 50, "129.00", "2025-02-03"),
    ("TE-2002", "Two-person tent", "Reno", 73, 40, "219.00", "2025-02-04"),
    ("TE-2004", "Four-person tent", "Boise", 19, 25, "349.00", "2025-02-10"),
    ("SB-3010", "Down sleeping bag", "Boise", 95, 45, "174.00", "2025-02-10"),
    ("SB-3020", "Summer sleeping bag", "Boise", 210, 80, "64.00", "2025-02-11"),
    ("ST-4001", "Gas stove, foldable", "Reno", 0, 30, "39.90", "2025-02-05"),
    ("ST-4005", "Cook set, titanium", "Boise", 57, 20, "78.00", "2025-02-11"),
    ("LI-5003", "Head lamp, rechargeable", "Reno", 342, 120, "44.50", "2025-02-06"),
    ("WA-6002", "Water filter", "Boise", 88, 60, "52.00", "2025-02-12"),
]

SENSOR: dict[str, Any] = {
    "device": {"id": "GH-07-B", "type": "climate sensor", "firmware": "3.4.1", "battery_percent": 81},
    "location": {"site": "Greenhouse 7", "bay": "B", "height_m": 1.8},
    "limits": {"temperature_c": {"low": 16, "high": 29}, "humidity_percent": {"low": 55, "high": 85}},
    "readings": [
        {"time": "2025-05-04T06:00:00Z", "temperature_c": 17.2, "humidity_percent": 78, "alarm": None},
        {"time": "2025-05-04T09:00:00Z", "temperature_c": 21.9, "humidity_percent": 71, "alarm": None},
        {"time": "2025-05-04T12:00:00Z", "temperature_c": 28.4, "humidity_percent": 59, "alarm": None},
        {"time": "2025-05-04T15:00:00Z", "temperature_c": 31.6, "humidity_percent": 52, "alarm": "too hot, too dry"},
        {"time": "2025-05-04T18:00:00Z", "temperature_c": 25.1, "humidity_percent": 63, "alarm": None},
    ],
    "maintenance": {"last_calibration": "2025-03-18", "technician": "Ivo Brandt", "next_due": "2025-09-18"},
}

SLIDES = [
    ("Project Heron: Kickoff", ["New booking portal for Saltmarsh Ferries", "September 8, 2025 · Priya Nandakumar"]),
    (
        "Goals",
        [
            "Passengers book and change tickets without calling us",
            "Calls to the service desk fall by 40 percent within six months",
            "Go-live before the summer timetable starts on May 1, 2026",
        ],
    ),
    ("Milestones and owners", []),
    (
        "Risks",
        [
            "The payment provider has not confirmed the test account; owner: Omar Haddad",
            "Timetable data has gaps for the winter season; owner: Lena Vogt",
            "Two developers are on leave in December; owner: Priya Nandakumar",
        ],
    ),
    (
        "Next steps",
        [
            "Lena Vogt delivers the timetable export by September 19, 2025",
            "Omar Haddad signs the payment contract by September 26, 2025",
            "Steering meeting every second Tuesday at 10:00",
        ],
    ),
]
MILESTONES = [
    ("Milestone", "Date", "Owner"),
    ("Prototype shown to passengers", "October 17, 2025", "Lena Vogt"),
    ("Payments work in test", "December 5, 2025", "Omar Haddad"),
    ("Pilot on the island line", "February 16, 2026", "Priya Nandakumar"),
    ("Go-live on all lines", "April 13, 2026", "Priya Nandakumar"),
]
SPEAKER_NOTE = "The budget of the project is $640,000; 15 percent of it is a reserve."

HANDBOOK = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Employee Handbook - Juniper Analytics</title>
<style>
body { margin: 2rem auto; max-width: 44rem; font: 16px/1.6 Georgia, serif; color: #222; }
nav { font-size: 0.9rem; }
table { border-collapse: collapse; }
td, th { border: 1px solid #bbb; padding: 0.4rem 0.8rem; }
</style>
</head>
<body>
<nav><ul><li><a href="#vacation">Vacation</a></li><li><a href="#remote">Remote work</a></li>
<li><a href="#expenses">Expenses</a></li><li><a href="#sick">Sick leave</a></li></ul></nav>
<main>
<h1>Employee Handbook</h1>
<p>This handbook holds for everyone employed by Juniper Analytics. It was last changed on January 15, 2025.</p>
<h2 id="vacation">Vacation</h2>
<p>Every full-time employee has 27 vacation days per calendar year. Part-time employees have a share of them.</p>
<ul>
<li>Up to 5 unused days may be carried over until March 31 of the next year.</li>
<li>After five years with the company you have 2 additional days per year.</li>
<li>Ask for more than 10 days in a row at least eight weeks ahead.</li>
</ul>
<h2 id="remote">Remote work</h2>
<p>You may work from home on up to three days per week. Tuesday is the day on which everyone is in the office.</p>
<p>Working from another country is possible for up to 20 days per year and needs the consent of your manager.</p>
<h2 id="expenses">Expenses</h2>
<p>Hand in receipts within 30 days. These limits hold for business travel:</p>
<table>
<tr><th>Expense</th><th>Limit</th><th>Receipt needed</th></tr>
<tr><td>Hotel, per night</td><td>$180</td><td>yes</td></tr>
<tr><td>Meals, per day</td><td>$65</td><td>above $25</td></tr>
<tr><td>Own car, per mile</td><td>$0.62</td><td>no</td></tr>
<tr><td>Client dinner, per person</td><td>$90</td><td>yes</td></tr>
</table>
<h2 id="sick">Sick leave</h2>
<p>Tell your manager before 9 a.m. on the first day. From the fourth day on we need a note from your doctor.</p>
<h2 id="training">Training</h2>
<p>Each employee has a budget of $1,500 and four working days per year for training of their choice.</p>
</main>
<footer><p>Questions? Write to people@juniper.example.</p></footer>
</body>
</html>
"""

MINUTES = """\
# Minutes of the Building Committee

Meeting of April 2, 2025, 18:30 to 20:10, community center, room 2.

Present: Agnes Thorne (chair), Mateo Silva, Ruth Lindqvist, Dev Anand (minutes). Excused: Paul Okoro.

## Roof repair

Three offers were compared. The committee chose Castell Roofing for $38,400.

| Company | Price | Start | Guarantee |
| --- | --- | --- | --- |
| Castell Roofing | $38,400 | May 12, 2025 | 10 years |
| Ridge & Sons | $41,950 | May 5, 2025 | 10 years |
| Topline | $36,800 | July 1, 2025 | 5 years |

**Decision:** accepted with 4 votes in favor and none against. Topline was cheaper but could start only in July.

## Bicycle parking

Ruth Lindqvist presented a plan for 24 covered places beside the east entrance. It would cost about $9,600.

**Decision:** postponed; Mateo Silva asks the city about a subsidy before the next meeting.

## Action items

- Dev Anand signs the contract with Castell Roofing by April 9, 2025.
- Mateo Silva reports on the subsidy by April 30, 2025.
- Agnes Thorne informs the neighbors about the scaffold by May 1, 2025.

## Next meeting

May 7, 2025 at 18:30 in the same room.
"""

LETTER_TEXT = """\
Fernhill Public Library
12 Station Road
Fernhill

March 3, 2025

Mrs. Eleanor Whitby
8 Orchard Close
Fernhill

Subject: Your gift to the local history collection

Dear Mrs. Whitby,

thank you for the 46 photographs and the diary of your grandfather that you gave us on February 20, 2025. The
photographs show the building of the railway bridge between 1902 and 1905, a time of which we had hardly any pictures.

We will scan every photograph by the end of June. The originals will be kept in our archive at a steady temperature of
16 degrees. You receive a set of prints, and your name will be given beside each picture unless you tell us otherwise
before April 15, 2025.

We would be glad to welcome you as our guest when the exhibition "Steel over the River" opens on September 12, 2025
at 6 p.m. Please let Mr. Jonas Albrecht know at (555) 0136 how many guests you will bring.

With kind regards,

Catherine Moss
Head of Collections
"""
