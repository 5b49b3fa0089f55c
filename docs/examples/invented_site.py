"""What the pages of the example site say: the town of Port Alden, its museums, people and prices are invented.

A page has an address on one of a few hosts, a title, the day it was published, and its blocks: a text is a paragraph,
a text that begins with `#` a heading, a list its points, a tuple of tuples a table whose first row is its head.
"""

from typing import NamedTuple, TypeAlias

Block: TypeAlias = str | list[str] | tuple[tuple[str, ...], ...]


class Page(NamedTuple):
    """A page of the site."""

    title: str
    published: str
    blocks: tuple[Block, ...]
    links: tuple[tuple[str, str], ...] = ()
    """Addresses and the words of the links, below the text."""
    canonical: str | None = None
    """The address of the page that this one is a copy of."""
    language: str = "en"


CITY, HARBOR, ART, SCIENCE, RAIL, NEWS = (
    "visit-port-alden.example",
    "harbor-museum.example",
    "alden-gallery.example",
    "tidewater-science.example",
    "valley-railway.example",
    "alden-courier.example",
)

PRICES = ("Ticket", "Price")

HARBOR_CARD: tuple[Block, ...] = (
    (
        "The Harbor Museum lends its audio guide for free with every ticket. The guide takes 50 minutes, has 22 stops "
        "and speaks English, Spanish and German."
    ),
    "Leave a piece of identification at the desk; it is returned with the guide. Headphones of your own fit.",
)

PAGES: dict[str, Page] = {
    f"{CITY}/index.html": Page(
        "Visit Port Alden: a harbor town with seven museums",
        "2026-03-02",
        (
            (
                "Port Alden lies where the Sill River meets the sea. The old town is small enough to be walked in a "
                "morning, and its seven museums are never more than two miles apart."
            ),
            "# Plan your visit",
            (
                "Begin at the ferry landing, follow the quay to the Harbor Museum and climb the Lantern Steps to the "
                "gallery. The tourist office on Wharf Street is open every day from 9 a.m. to 6 p.m. from May to "
                "September, and until 4 p.m. in winter."
            ),
        ),
        (
            (f"https://{CITY}/museums.html", "Museums"),
            (f"https://{CITY}/city-card.html", "The city card"),
            (f"https://{CITY}/getting-here.html", "Getting here"),
            (f"https://{CITY}/events.html", "Events"),
        ),
    ),
    f"{CITY}/museums.html": Page(
        "Museums of Port Alden: opening days and admission",
        "2026-03-02",
        (
            (
                "Three of the seven museums of Port Alden open on Mondays: the Harbor Museum, the Tidewater Science "
                "Center and the Fire Brigade Museum. The others close on Mondays."
            ),
            (
                ("Museum", "Open on Mondays", "Adults", "Children"),
                ("Harbor Museum", "yes, 10 a.m. to 5 p.m.", "$14", "$6"),
                ("Tidewater Science Center", "yes, 9 a.m. to 4 p.m.", "$18", "$12"),
                ("Fire Brigade Museum", "yes, 1 p.m. to 5 p.m.", "free", "free"),
                ("Alden Gallery", "no", "$11", "free"),
                ("Valley Railway Museum", "no", "$9", "$5"),
                ("Lighthouse on Gull Point", "no", "$5", "$3"),
                ("Museum of Glass and Salt", "no", "$8", "$4"),
            ),
            "Prices are those of the season 2026. Each museum tells its own hours; on public holidays they differ.",
        ),
        (
            (f"https://{HARBOR}/visit.html", "Harbor Museum: hours and tickets"),
            (f"https://{SCIENCE}/visit.html", "Tidewater Science Center: plan your visit"),
            (f"https://{CITY}/fire-brigade-museum.html", "Fire Brigade Museum"),
            (f"https://{ART}/visit.html", "Alden Gallery"),
            (f"https://{RAIL}/visit.html", "Valley Railway Museum"),
            (f"https://{CITY}/lighthouse.html", "Lighthouse on Gull Point"),
            (f"https://{CITY}/glass-and-salt.html", "Museum of Glass and Salt"),
        ),
    ),
    f"{CITY}/fire-brigade-museum.html": Page(
        "Fire Brigade Museum",
        "2026-01-18",
        (
            "The Fire Brigade Museum stands in the old engine house of 1887 on Pump Lane. It is run by volunteers.",
            (
                "The museum is open on Mondays and Saturdays from 1 p.m. to 5 p.m. Admission is free; donations keep "
                "the steam pump running."
            ),
            "The pump, built by Kessler & Sons in 1903, is fired up on the first Saturday of every month.",
        ),
    ),
    f"{CITY}/lighthouse.html": Page(
        "Lighthouse on Gull Point",
        "2025-11-30",
        (
            "The lighthouse on Gull Point was lit in 1864 and is 31 meters high. There are 162 steps to the lantern.",
            (
                "It can be climbed from Wednesday to Sunday, 11 a.m. to 4 p.m.; it is closed on Mondays and Tuesdays "
                "and in winds above 50 miles per hour. Adults pay $5, children $3."
            ),
            "Children must be at least 1.10 meters tall to climb the stairs.",
        ),
    ),
    f"{CITY}/glass-and-salt.html": Page(
        "Museum of Glass and Salt",
        "2025-12-12",
        (
            (
                "The Museum of Glass and Salt tells how the salt works of the Sill estuary paid for the glassworks. "
                "It is open from Tuesday to Saturday, 10 a.m. to 4 p.m.; it is closed on Sundays and Mondays."
            ),
            "Tickets cost $8, for children from 6 to 16 years $4. A glassblower works every Thursday at 2 p.m.",
        ),
    ),
    f"{CITY}/city-card.html": Page(
        "The Port Alden city card",
        "2026-02-20",
        (
            (
                "The city card costs $29 for two days and $39 for four. It opens all seven museums once and pays for "
                "buses and the harbor ferry."
            ),
            (
                "Children below 14 years travel and visit with a card holder for free. The card is sold at the tourist "
                "office, at the ferry landing and online."
            ),
            "The card cannot be returned once it was used.",
        ),
    ),
    f"{CITY}/getting-here.html": Page(
        "Getting to Port Alden",
        "2025-10-05",
        (
            (
                "Trains from Ashford take 1 hour 40 minutes and leave every two hours. The station is ten minutes on "
                "foot from the quay."
            ),
            "The ferry of Saltmarsh Ferries crosses from Gull Island six times a day; bicycles travel for $2.",
            "Parking in the old town is limited to two hours. The car park at Mill Road costs $6 per day.",
        ),
    ),
    f"{CITY}/events.html": Page(
        "Events in Port Alden",
        "2026-04-14",
        (
            "# Night of Museums",
            (
                "The Night of Museums is on Saturday, June 20, 2026, from 6 p.m. until midnight. One ticket of $15 "
                "opens all seven museums."
            ),
            "# Tall ships",
            "Eleven tall ships are expected from August 7 to 9, 2026. The quay is closed to cars on these days.",
        ),
    ),
    f"{CITY}/restaurants.html": Page(
        "Where to eat in Port Alden",
        "2025-09-09",
        (
            "The Mussel House on Quay Street serves the catch of the day from noon; it rests on Mondays.",
            "Café Lantern, above the steps, bakes its bread at night and opens at 7 a.m. on every day but Tuesday.",
            "The market hall has eight stalls, among them the soup kitchen of Ines Duarte, where a bowl costs $7.",
        ),
    ),
    f"{CITY}/accessibility.html": Page(
        "Port Alden without steps",
        "2026-01-08",
        (
            (
                "The Harbor Museum and the Tidewater Science Center have lifts to all floors. The gallery can be "
                "reached without steps by the entrance in Vine Street; ring the bell."
            ),
            "The lighthouse cannot be climbed with a wheelchair; a film of the view is shown on the ground floor.",
            "The tourist office lends two wheelchairs for free; ask a day before at +1 360 555 0133.",
        ),
    ),
    f"{HARBOR}/index.html": Page(
        "Harbor Museum Port Alden",
        "2026-02-01",
        (
            "The Harbor Museum shows 200 years of ships, nets and cranes in the former customs house on Wharf Street.",
            "Its largest piece is the pilot cutter Marianne of 1911, which visitors may board.",
        ),
        (
            (f"https://{HARBOR}/visit.html", "Hours and tickets"),
            (f"https://{HARBOR}/marianne.html", "The cutter Marianne"),
            (f"https://{HARBOR}/audio-guide.html", "Audio guide"),
            (f"https://{HARBOR}/annual-report-2025.pdf", "Annual report 2025 (PDF)"),
        ),
    ),
    f"{HARBOR}/visit.html": Page(
        "Hours and tickets of the Harbor Museum",
        "2026-02-01",
        (
            "The Harbor Museum is open every day, Mondays too, from 10 a.m. to 5 p.m. On Thursdays it closes at 8 p.m.",
            (
                PRICES,
                ("Adults", "$14"),
                ("Children from 6 to 16 years", "$6"),
                ("Children below 6 years", "free"),
                ("Families (two adults, all children)", "$32"),
            ),
            (
                "The last visitors are let in 45 minutes before the museum closes. It is closed on December 24 and 25 "
                "and on January 1."
            ),
        ),
        ((f"https://{HARBOR}/groups.html", "Groups and schools"),),
    ),
    f"{HARBOR}/groups.html": Page(
        "Groups and schools at the Harbor Museum",
        "2025-08-25",
        (
            (
                "Groups of ten and more pay $11 for each person. A tour for up to 20 people costs $60 and takes 75 "
                "minutes."
            ),
            (
                "Schools of the county come for free from Monday to Wednesday; book four weeks ahead with Priya Nand, "
                "schools@harbor-museum.example."
            ),
        ),
    ),
    f"{HARBOR}/marianne.html": Page(
        "The pilot cutter Marianne",
        "2024-06-11",
        (
            (
                "The Marianne was built in 1911 by the yard of Anders Holm. She is 18.4 meters long and carried pilots "
                "to ships off Gull Point until 1958."
            ),
            (
                "She was found sunk in the river Sill in 1991, raised by 30 volunteers, and restored in nine years for "
                "$410,000."
            ),
        ),
    ),
    f"{HARBOR}/audio-guide.html": Page("Audio guide of the Harbor Museum", "2025-05-19", HARBOR_CARD),
    f"{HARBOR}/print/audio-guide.html": Page(
        "Audio guide of the Harbor Museum (to print)",
        "2025-05-19",
        HARBOR_CARD,
        canonical=f"https://{HARBOR}/audio-guide.html",
    ),
    f"{SCIENCE}/index.html": Page(
        "Tidewater Science Center",
        "2026-03-15",
        (
            (
                "In the Tidewater Science Center visitors measure waves, feed plankton and send a tide through a model "
                "of the estuary, 12 meters long."
            ),
            "The planetarium has 84 seats. Shows are at 11 a.m., 1 p.m. and 3 p.m.",
        ),
        ((f"https://{SCIENCE}/visit.html", "Plan your visit"), (f"https://{SCIENCE}/planetarium.html", "Planetarium")),
    ),
    f"{SCIENCE}/visit.html": Page(
        "Plan your visit to the Tidewater Science Center",
        "2026-03-15",
        (
            (
                "The science center is open on Mondays from 9 a.m. to 4 p.m. and from Wednesday to Sunday from 9 a.m. "
                "to 6 p.m. It is closed on Tuesdays."
            ),
            (
                "Adults pay $18, children from 4 to 17 years $12, students with a card $14. The planetarium costs $4 "
                "on top."
            ),
            "Every first Friday of the month admission is half price from 3 p.m.",
        ),
    ),
    f"{SCIENCE}/planetarium.html": Page(
        "The planetarium of the Tidewater Science Center",
        "2025-12-01",
        (
            (
                "The dome measures 15 meters. Its projector, a Corvus 8, shows 9,500 stars and came into service on "
                "September 12, 2023."
            ),
            "Children below four years are not admitted to the evening show “Deep Sky”.",
        ),
    ),
    f"{ART}/visit.html": Page(
        "Visit the Alden Gallery",
        "2026-01-27",
        (
            "The gallery opens from Tuesday to Sunday, 11 a.m. to 6 p.m. It is closed on Mondays.",
            "Admission is $11; visitors below 18 years come in for free. On the last Sunday of each month nobody pays.",
        ),
        ((f"https://{ART}/ruth-calder.html", "Exhibition: Ruth Calder"),),
    ),
    f"{ART}/ruth-calder.html": Page(
        "Ruth Calder: Salt Light",
        "2026-04-03",
        (
            (
                "The exhibition “Salt Light” shows 64 paintings by Ruth Calder (1889-1961) from April 18 to September "
                "27, 2026."
            ),
            (
                "Calder painted the salt works of the estuary in all weathers. Her diary, on loan from the university "
                "of Ashford, is shown for the first time."
            ),
            "The curator is Milo Brandt. Tours are on Sundays at noon; they cost $4.",
        ),
    ),
    f"{RAIL}/visit.html": Page(
        "Valley Railway Museum: timetable and fares",
        "2026-03-28",
        (
            (
                "The museum in the roundhouse opens from Thursday to Sunday, 10 a.m. to 5 p.m., and is closed from "
                "Monday to Wednesday. Adults pay $9, children $5."
            ),
            (
                "Steam trains run on Sundays from May 3 to October 11, 2026, at 10:30 a.m., 1 p.m. and 3:30 p.m. The "
                "ride to Millbrook and back costs $16 and takes 70 minutes."
            ),
        ),
    ),
    f"{NEWS}/2026/harbor-museum-longer-hours.html": Page(
        "Harbor Museum stays open longer on Thursdays",
        "2026-02-05",
        (
            (
                "The Harbor Museum will close at 8 p.m. instead of 5 p.m. on Thursdays, its director Hanna Oyelaran "
                "said on Wednesday. “People who work want to see the Marianne, too,” she said."
            ),
            (
                "The town pays $48,000 a year for the longer hours. The price of a ticket stays at $14 until the end "
                "of 2026."
            ),
        ),
    ),
    f"{NEWS}/2026/record-year-for-museums.html": Page(
        "Record year for the museums of Port Alden",
        "2026-01-22",
        (
            "The seven museums of Port Alden counted 312,400 visitors in 2025, 9 percent more than in the year before.",
            "Most of them, 121,000, came to the Harbor Museum. The Tidewater Science Center followed with 98,300.",
            "Mayor Elena Ruiz wants to build a ferry stop at Gull Point, which would cost $2.1 million.",
        ),
    ),
    f"{NEWS}/agency/record-year-for-museums.html": Page(
        "Record year for the museums of Port Alden",
        "2026-01-22",
        (
            "The seven museums of Port Alden counted 312,400 visitors in 2025, 9 percent more than in the year before.",
            "Most of them, 121,000, came to the Harbor Museum. The Tidewater Science Center followed with 98,300.",
            "Mayor Elena Ruiz wants to build a ferry stop at Gull Point, which would cost $2.1 million.",
        ),
    ),
    f"{NEWS}/2025/gull-point-path.html": Page(
        "Path to Gull Point closed until spring",
        "2025-11-03",
        (
            (
                "A slide after the storm of October 29 has closed the path from the quay to Gull Point. It will be "
                "opened again by April 15, 2026; the repair costs $86,000."
            ),
            "Until then the lighthouse can be reached by the road from Mill Lane only.",
        ),
    ),
    f"{CITY}/de/museen.html": Page(
        "Museen in Port Alden: Öffnungstage und Eintritt",
        "2026-03-02",
        (
            (
                "Drei der sieben Museen von Port Alden sind auch am Montag geöffnet: das Hafenmuseum, das Tidewater "
                "Science Center und das Feuerwehrmuseum."
            ),
            "Der Eintritt kostet im Hafenmuseum 14 Dollar, im Science Center 18 Dollar; das Feuerwehrmuseum ist frei.",
        ),
        language="de",
    ),
}

NOTES: dict[str, str] = {
    f"{CITY}/ferry.md": """# Harbor ferry

The harbor ferry runs every 20 minutes from 7 a.m. to 9 p.m., on Sundays every 40 minutes.

| Ticket | Price |
|---|---|
| Single | $3 |
| Ten rides | $24 |
| Bicycle | $2 |

The boats stop at the quay, at Mill Road and at the fish market.
""",
    f"{CITY}/lost-and-found.txt": """Lost and found in Port Alden

What was found on buses, on the ferry and in the museums is kept for 60 days at the tourist office, 4 Wharf Street.
Office hours: Monday to Friday, 9 a.m. to 1 p.m. Telephone: +1 360 555 0120.
""",
}

REPORT = (
    "Harbor Museum Port Alden: annual report 2025",
    (
        (
            "Visitors",
            "In 2025 the museum had 121,000 visitors, 14,200 of them pupils. August was the busiest month with 18,950.",
        ),
        (
            "Money",
            (
                "The museum took in $1,286,000 from tickets and $342,500 from gifts. The town gave $410,000. "
                "Wages came to $1,105,000, the upkeep of the customs house to $388,000."
            ),
        ),
        (
            "Collection",
            (
                "The collection grew by 212 pieces to 41,760. The most valuable gift was the logbook of the pilot "
                "Jonas Petrie, kept from 1899 to 1921."
            ),
        ),
    ),
)
REPORT_PATH = f"{HARBOR}/annual-report-2025.pdf"
