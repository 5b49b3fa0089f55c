"""Two hundred pages of an invented county, and forty questions that one page each answers.

Ten kinds of places have twenty pages each, in the same words with other names and numbers; on four of each kind stands
a sentence more that answers a question. Questions name no page, and hardly any uses the words of the answer alone.
"""

import random
from html import escape
from pathlib import Path
from typing import NamedTuple

PLACES = (
    *("Ashford", "Millbrook", "Port Alden", "Gull Island", "Sill Bridge", "Harrow Vale", "Eastcombe", "Stonebeck"),
    *("Winter Hill", "Larkspur", "Quarry End", "Old Ferry", "Marsh Green", "Thornby", "Upper Sill", "Kingsmere"),
    *("Foxley", "Brantwood", "Coldwater", "Saltmarsh"),
)


class Asked(NamedTuple):
    """A question, and the sentence of one page that answers it."""

    place: int
    """The number of the place whose page says it."""
    question: str
    answer: str


class Kind(NamedTuple):
    """A kind of places, what all of its pages say, and what four of them say besides."""

    name: str
    title: str
    sentences: tuple[str, ...]
    asked: tuple[Asked, ...]


KINDS: tuple[Kind, ...] = (
    Kind(
        "museum",
        "{place} Museum",
        (
            "The museum of {place} shows tools, paintings and photographs from {number} years of the village.",
            "It is open from Tuesday to Sunday, 10 a.m. to 5 p.m.; on Mondays it is closed.",
            "Adults pay ${price}, children half of it, and members of the society come in for free.",
            "Tours for groups start at 2 p.m. and have to be booked a week ahead.",
            "A lift leads to all floors, and there is a cloakroom beside the entrance.",
            "The museum shop sells books about the history of the county.",
        ),
        (
            Asked(
                2,
                "Which museum can be visited on Mondays?",
                "From May to October it also opens on Monday afternoons, since cruise ships call at the quay then.",
            ),
            Asked(
                7,
                "Where is the skeleton of a whale exhibited?",
                "In the great hall hangs the skeleton of a fin whale that stranded in 1934.",
            ),
            Asked(
                11,
                "Who gave the museum its collection of clocks?",
                "Its 90 clocks were the gift of the watchmaker Clara Venn, who died in 1968.",
            ),
            Asked(
                16,
                "Which museum offers audio guides in sign language?",
                "Deaf visitors borrow a tablet on which a guide explains every room in sign language.",
            ),
        ),
    ),
    Kind(
        "ferry",
        "Ferry of {place}",
        (
            "The ferry of {place} crosses the river every {number} minutes from 6 a.m. to 9 p.m.",
            "A single ticket costs ${price}; ten rides cost as much as eight.",
            "Cars are taken on board as long as there is room; drivers wait in the marked lane.",
            "In fog and in storms the boats stay in the harbor.",
            "The crossing takes a quarter of an hour.",
            "Tickets are sold on board, in cash or by card.",
        ),
        (
            Asked(
                3,
                "Are bicycles carried for free on any boat?",
                "Bicycles, prams and wheelchairs travel free of charge on this line.",
            ),
            Asked(
                8,
                "Which ferry runs on batteries?",
                "Since 2024 the boat Petrel has crossed on electric power alone; its batteries are loaded at night.",
            ),
            Asked(
                12,
                "How do I get across the river after midnight?",
                "On Saturdays a night boat leaves at 0:30 a.m. and 1:30 a.m. for those who come from the dance hall.",
            ),
            Asked(
                17,
                "Which ferry company lost its captain in the storm of 1911?",
                "A bronze plate at the landing remembers captain Isaac Holm, who drowned in the storm of 1911.",
            ),
        ),
    ),
    Kind(
        "bakery",
        "Bakery in {place}",
        (
            "The bakery in {place} has baked bread in a stone oven for {number} years.",
            "It opens at 6:30 a.m. and closes when the shelves are empty.",
            "A loaf of rye bread costs ${price}.",
            "On Fridays there are cinnamon rolls and plaited buns.",
            "Flour comes from the mill down the road, butter from the dairy of the valley.",
            "Cakes for birthdays can be ordered two days ahead.",
        ),
        (
            Asked(
                1,
                "Where can I buy gluten-free bread?",
                "In a kitchen of its own it bakes bread without gluten, from buckwheat and rice.",
            ),
            Asked(
                6,
                "Which bakery teaches how to make sourdough?",
                "On the first Saturday of the month the baker gives a class on sourdough for eight people.",
            ),
            Asked(
                13,
                "Which bakery won a prize for its apple tart?",
                "Its apple tart took the first prize at the county fair in 2023.",
            ),
            Asked(
                18,
                "Who delivers rolls to the door on Sundays?",
                "On Sunday mornings a cargo bike brings rolls to houses within three miles.",
            ),
        ),
    ),
    Kind(
        "library",
        "Public library of {place}",
        (
            "The public library of {place} lends {number} thousand books, films and games.",
            "It is open on weekdays from 10 a.m. to 6 p.m. and on Saturdays until noon.",
            "A card costs ${price} a year; for pupils it is free.",
            "Books may be kept for four weeks and renewed twice.",
            "There are desks, computers and a quiet room.",
            "Who returns a book late pays twenty cents a day.",
        ),
        (
            Asked(
                0,
                "Which library lends musical instruments?",
                "Guitars, ukuleles and a violin can be borrowed like books, for six weeks.",
            ),
            Asked(
                5,
                "Where are the old county newspapers kept on microfilm?",
                "The newspapers of the county from 1852 to 1990 can be read on microfilm in its cellar.",
            ),
            Asked(
                10,
                "Which library stays open all night before exams?",
                "In June, when students prepare for exams, the reading room is open around the clock.",
            ),
            Asked(
                15,
                "Where can I repair things with a 3D printer?",
                "Its workshop has a 3D printer, a laser cutter and a sewing machine for everybody with a card.",
            ),
        ),
    ),
    Kind(
        "pool",
        "Swimming pool {place}",
        (
            "The swimming pool of {place} has a basin of 25 meters and a pool for children.",
            "It is open daily from 7 a.m. to 8 p.m., and {number} lockers are at hand.",
            "Admission is ${price}; in the last hour it is half of that.",
            "Courses for beginners start in spring and autumn.",
            "Dogs and glass bottles must stay outside.",
            "The café on the lawn serves chips and lemonade.",
        ),
        (
            Asked(
                4,
                "Which pool is filled with sea water?",
                "Its basin is filled with water from the sea at every high tide.",
            ),
            Asked(
                9,
                "Where can women swim among themselves?",
                "On Wednesday evenings the pool is for women only, and female lifeguards are on duty.",
            ),
            Asked(
                14,
                "Which swimming pool has a diving tower of ten meters?",
                "Divers come from far away for its tower with platforms at five, seven and ten meters.",
            ),
            Asked(
                19,
                "Why is the swimming pool closed until September?",
                "Because of cracks in the roof the hall stays shut until September 2026.",
            ),
        ),
    ),
    Kind(
        "school",
        "School of {place}",
        (
            "The school of {place} has {number} pupils in twelve classes.",
            "Lessons begin at 8:15 a.m. and end at 3 p.m.",
            "Lunch costs ${price}; there is a dish without meat every day.",
            "Parents meet the teachers twice a year.",
            "The school bus stops at the church and at the mill.",
            "In the afternoon there are clubs for chess, football and drama.",
        ),
        (
            Asked(
                2,
                "Which school teaches Japanese?",
                "From the seventh year on pupils may choose Japanese as their second foreign language.",
            ),
            Asked(
                6,
                "Where do children keep bees at school?",
                "Behind the gym stand four hives; the bee club sells its honey at the summer fair.",
            ),
            Asked(
                11,
                "Which school was designed by a famous architect?",
                "The building of 1927 is a work of the architect Lena Forsberg and is a listed monument.",
            ),
            Asked(
                16,
                "Which school has forbidden mobile phones?",
                "Since January phones have to be left in a locker at the gate until the last lesson is over.",
            ),
        ),
    ),
    Kind(
        "campsite",
        "Campsite {place}",
        (
            "The campsite of {place} lies on a meadow by the water and has {number} pitches.",
            "A tent and two people cost ${price} a night.",
            "It is open from Easter to the end of October.",
            "Showers are warm, and coins are not needed.",
            "Bread can be ordered at the reception until 6 p.m.",
            "Fires are allowed at the marked places only.",
        ),
        (
            Asked(
                3,
                "Which campsite accepts dogs?",
                "Dogs are welcome; for $2 a night they get a bowl, a blanket and a shower of their own.",
            ),
            Asked(
                8,
                "Where can I sleep in a shepherd's hut or a barrel?",
                "Who has no tent rents one of three wooden barrels with beds for two.",
            ),
            Asked(
                12,
                "Which camp site can be reached by canoe?",
                "Paddlers land at a jetty of their own; canoes may be left in the boat shed.",
            ),
            Asked(
                17,
                "Where are stars watched with a telescope?",
                "As no lamp shines after ten, an astronomer shows the sky through a telescope on clear Fridays.",
            ),
        ),
    ),
    Kind(
        "theater",
        "Theater {place}",
        (
            "The theater of {place} has {number} seats and plays from September to June.",
            "Tickets cost from ${price}; pupils and students pay half.",
            "The curtain rises at 7:30 p.m., on Sundays at 5 p.m.",
            "The box office opens an hour before each performance.",
            "There is a bar in the foyer.",
            "Who comes late is let in at the first interval.",
        ),
        (
            Asked(
                1,
                "Which theater has surtitles for people who are hard of hearing?",
                "At every second performance the text is shown above the stage for those who hear badly.",
            ),
            Asked(
                7,
                "Who directs the production of Hamlet?",
                "Shakespeare's Hamlet, directed by Nora Achebe, has its first night on March 14.",
            ),
            Asked(
                13,
                "Which theater was once a fish market hall?",
                "Until 1978 the house was the hall of the fish market; hooks still hang from the beams.",
            ),
            Asked(
                18,
                "Where can I volunteer as an usher?",
                "Ushers work as volunteers and see every play for nothing; write to the house manager.",
            ),
        ),
    ),
    Kind(
        "clinic",
        "Clinic {place}",
        (
            "The clinic of {place} has {number} beds and an emergency room that never closes.",
            "Visitors are welcome from 2 p.m. to 7 p.m.",
            "Parking costs ${price} for a day.",
            "Patients bring their insurance card and a list of their medicines.",
            "A chaplain is in the house on three days of the week.",
            "The cafeteria is open to everybody.",
        ),
        (
            Asked(
                0,
                "Where can I be vaccinated against yellow fever?",
                "The travel ward vaccinates against yellow fever on Tuesdays, by appointment.",
            ),
            Asked(
                5,
                "Which hospital has a helicopter landing pad?",
                "Since the new wing was built, helicopters land on its roof by day and by night.",
            ),
            Asked(
                10,
                "Where do midwives offer water births?",
                "Its midwives run a birth center with two large tubs, where children are born in water.",
            ),
            Asked(
                15,
                "Which clinic studies a new treatment for asthma?",
                "For a study of an asthma spray it looks for 60 patients from 18 to 40 years.",
            ),
        ),
    ),
    Kind(
        "farm",
        "Farm shop {place}",
        (
            "The farm shop of {place} sells what grows on {number} acres: potatoes, carrots, apples and pumpkins.",
            "It is open from Thursday to Saturday, 9 a.m. to 6 p.m.",
            "A box of vegetables costs ${price} and is filled anew every week.",
            "Eggs come from hens that run about on the meadow.",
            "Customers bring their own bags.",
            "In autumn there is cider from the press in the yard.",
        ),
        (
            Asked(
                4,
                "Where may visitors pick strawberries themselves?",
                "In June guests pick strawberries in the field themselves and pay by weight.",
            ),
            Asked(
                9,
                "Who makes cheese from the milk of sheep?",
                "Its 70 sheep give the milk for a hard cheese that ripens in the cellar for ten months.",
            ),
            Asked(
                14,
                "Which farm heats its greenhouse with biogas?",
                "The greenhouse is heated by a biogas plant that is fed with dung and straw.",
            ),
            Asked(
                19,
                "Where can children ride a donkey?",
                "On Saturdays the donkeys Pepper and Salt carry children around the pond.",
            ),
        ),
    ),
)


def write_pages(folder: Path) -> dict[str, str]:
    """Write the two hundred pages; the questions, each with the address of the page that answers it."""
    questions: dict[str, str] = {}
    for kind in KINDS:
        said = {asked.place: asked for asked in kind.asked}
        for number, place in enumerate(PLACES):
            path = folder / f"{kind.name}s.example" / f"{place.lower().replace(' ', '-')}.html"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(_html(kind, number, said.get(number)))
            if number in said:
                questions[said[number].question] = f"https://{path.parent.name}/{path.name}"
    return questions


def _html(kind: Kind, number: int, asked: Asked | None) -> str:
    chance = random.Random(f"{kind.name}{number}")  # the same pages on every machine
    place, numbers = PLACES[number], {"number": chance.randint(12, 98), "price": chance.randint(3, 29)}
    told = [sentence.format(place=place, **numbers) for sentence in chance.sample(kind.sentences, 5)]
    told.insert(2, f"{place} lies in the county of Sill; the bus from {chance.choice(PLACES)} stops nearby.")
    if asked is not None:
        told.insert(4, asked.answer)
    title = kind.title.format(place=place)
    body = "\n".join(f"<p>{escape(' '.join(told[first : first + 2]))}</p>" for first in range(0, len(told), 2))
    menu = "".join(f'<a href="/{other}.html">{other} of the county</a>' for other in ("hours", "prices", "contact"))
    head = f'<html lang="en"><head><meta charset="utf-8"><title>{title}</title></head>'
    return f"{head}<body><nav>{menu}</nav><main><h1>{title}</h1>\n{body}</main></body></html>"
