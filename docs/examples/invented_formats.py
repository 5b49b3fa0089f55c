"""What the example documents of the rarer formats say: all of it is invented, too."""

LEASE = [
    ("1. Premises", "Kestrel Pottery rents the workshop at 9 Foundry Lane, Wexcombe, from Harriet Blom."),
    ("2. Term", "The lease begins on April 1, 2025 and ends on March 31, 2028."),
    ("3. Kiln", "The tenant may run one electric kiln of at most 18 kilowatts."),
]
LEASE_NOTE = "The connection of the workshop allows 22 kilowatts; an electrician measured it on February 11, 2025."
LEASE_REMARK = ("Harriet Blom", "Please add the serial number of the kiln before we sign.")
LEASE_COSTS = [
    ("Rent", "Workshop", "1,150"),
    ("", "Yard", "90"),
    ("Heating", "Advance payment", "140"),
]
LEASE_DELETED = ("Harriet Blom", "The tenant may keep one dog. ")

SIGHTINGS = [
    ("Station", "Species", "Date", "Count"),
    ("North pier", "Oystercatcher", "2025-05-03", 41),
    ("North pier", "Turnstone", "2025-05-03", 17),
    ("Mudflat", "Curlew", "2025-05-04", 63),
    ("Mudflat", "Redshank", "2025-05-04", 28),
]

RELEASE = [
    "Tidewell Brewery opens its second hall on June 14, 2025.",
    "The hall holds six tanks of 4,000 liters each. It was built in eleven months and cost 2.3 million euros.",
    "Guests may visit on Saturdays from 10 to 16 o\u2019clock; the tour with J\u00fcrgen Falk lasts 50 minutes.",
]
RELEASE_PRICES = [("Tour", "Price"), ("Adults", "12.50"), ("Children", "6.00"), ("Groups from 10", "9.00")]

MAIL = """Dear Ms. Adeyemi,

thank you for your inquiry about the greenhouse. Our offer is attached, together with the prices of the spare panes.
We can deliver in week 31 if you order by July 4, 2025.

Kind regards
Pavel Horn
Glasshaus Horn
"""
OFFER = [
    "Offer GH-0731 for Adeyemi Nurseries",
    "One greenhouse of aluminium and safety glass, 6.2 m by 3.1 m.",
    "Total price including assembly: 8,940.00 euros.",
    "The frame is guaranteed for 15 years, the glass for 5 years.",
]
PANES = "Pane;Size;Price\nRoof;61 x 122 cm;48,50\nWall;61 x 91 cm;36,20\nDoor;55 x 170 cm;71,00\n"

HANDOVER = {
    "readme.txt": (
        "Handover of the Linden Street library on September 1, 2025.\nThe alarm is armed by the night guard.\n"
    ),
    "plans/rooms.csv": "room,floor,seats\nReading room,1,84\nWorkshop,0,16\nChildren's corner,1,25\n",
    "keys.md": (
        "# Keys\n\n## Main entrance\n\nThree keys; Noor Haddad keeps the third.\n\n"
        "## Archive\n\nOne key, in the safe.\n"
    ),
}

ORDER = """<?xml version="1.0" encoding="UTF-8"?>
<order number="PO-5582" date="2025-03-19">
  <buyer>
    <name>Northgate School</name>
    <city>Alnwick</city>
  </buyer>
  <delivery latest="2025-04-11">Deliver to the <b>side entrance</b>, between 7 and 9 in the morning.</delivery>
  <items>
    <item sku="D-20"><name>Desk</name><quantity>30</quantity><price currency="GBP">84.50</price></item>
    <item sku="C-11"><name>Chair</name><quantity>62</quantity><price currency="GBP">31.00</price></item>
    <item sku="B-07"><name>Whiteboard</name><quantity>4</quantity><price currency="GBP">129.00</price></item>
  </items>
</order>
"""

POLICY = [
    ("Trains", "Whoever travels for more than four hours may book first class."),
    ("Flights", "Flights are booked only where a train takes longer than seven hours."),
    ("Hotels", "A room costs at most what the table allows."),
]
POLICY_NOTE = "Counted from station to station, as the timetable says."
POLICY_REMARK = ("Ines Carvalho", "Do we want to keep seven hours? Works council asks for six.")
POLICY_INSERTED = ("Ines Carvalho", " Night trains are always allowed.")
POLICY_DELETED = ("Rolf Amman", " Breakfast is not paid.")
ROOM_RATES = [("Region", "City", "Limit per night"), ("North", "Bergen", "190"), ("", "Turku", "150")]
ROOM_RATES_END = "All limits are in euros and hold until December 2025."

VEHICLES = [
    ("Van 1", "2021-06-15", 48210, 0.82),
    ("Van 2", "2022-11-02", 30975, 0.64),
    ("Truck", "2019-03-28", 112640, 0.915),
]
RATES = [("Fuel", "Rate per km"), ("Diesel", 0.31), ("Electric", 0.19)]
CHECKS = [("Checked by", "On"), ("Malte Brandt", "2025-02-27")]

TRAINING = [
    ("Ladders: safe use", ["Every ladder is checked before use", "Nobody stands on the upper two rungs"]),
    ("Who trains whom", []),
    ("Accident of 2023", ["A fall from 2.4 meters", "The ladder had last been checked 19 months before"]),
]
TRAINING_NOTES = "Ask who has checked a ladder this month; last year it was only 12 of 40 people."
TRAINERS = [("Site", "Trainer", "Day"), ("Harbor", "Silke Oyelaran", "May 6"), ("", "Bram de Wit", "May 20")]
