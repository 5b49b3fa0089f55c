"""Small tables of general words: stop words by language, and words that mean the same in documents of business."""

from typing import Final


def words_in(text: str) -> frozenset[str]:
    """The words of a table."""
    return frozenset(text.split())


STOP_WORDS: Final[dict[str, frozenset[str]]] = {
    "en": words_in("""a about above according after again all also am an and any are as at be been being
        below between both but by
        can could did do does doing done down during each either every few for from further get give given got had has
        have having he her here hers him his how i if in into is it its itself just kindly least let ll may me might
        more most much must my no nor not now of off on once one only or other our out over own per please s same shall
        she should so some such t than that the their them then there these they this those through to too under
        up upon us using very via want was we were what when where whether which while who whom whose why will with
        within would you your tell show find list say says said state stated mention mentioned named called know
        please found exactly respectively many long old"""),
    "de": words_in("""aber alle allem allen aller alles als also am an auch auf aus bei beim bin bis bist
        bitte da damit dann das dass
        dein deine dem den der des dessen deren dich die dies diese diesem diesen dieser dieses dir doch dort du durch
        ein eine einem einen einer eines er es etwas euch euer für gegen gibt habe haben hat hatte ich ihm ihn ihnen
        ihr ihre im in ist ja jede jeder jedes kann kein keine können laut man mein mich mir mit muss nach nicht noch
        nun nur ob oder ohne sehr sein seine sich sie sind so soll sowie über um und uns unser unter vom von vor war
        waren warum was wann weil welche welchem welchen welcher welches wem wen wenn wer werden wessen wie wieviel
        viel viele lange wir wird wo woher wohin wurde wurden zu zum zur zwischen nenne nennen zeige sag sage steht
        lautet heißt"""),
    "fr": words_in("le la les des du un une et est que qui quel quelle dans pour sur avec pas au aux ce cette"),
    "es": words_in("el la los las un una y es que de del en por para con cuál qué quién cuándo su se al"),
    "it": words_in("il lo la gli le un una e è che di del della in per con quale chi quando si al"),
}

KEPT_APART: Final = words_in("insurer insured employer employee payer payee lessor lessee founder organ organization")
"""Words of different meaning that a stemmer would make one."""

SAME_MEANING: Final = (
    # money
    "total sum altogether owed gesamt summe gesamtbetrag gesamtsumme endbetrag endsumme gesamtpreis montant importe",
    "total gesamtbetrag rechnungsbetrag",
    "subtotal zwischensumme nettosumme",
    "cost price charge betrag preis kosten amount prix precio",
    "fee gebühr charge cost",
    "tax vat steuer mehrwertsteuer mwst umsatzsteuer",
    "discount rabatt nachlass skonto rebate reduction",
    "deposit anzahlung kaution",
    "invoice bill rechnung facture factura",
    "paid pay payment zahlung bezahlt zahlen bezahlen",
    "due fällig fälligkeit payable",
    "revenue turnover umsatz erlös einnahmen",
    "profit gewinn earnings",
    "salary wage gehalt lohn",
    "budget etat haushalt",
    "balance saldo kontostand",
    "deductible selbstbeteiligung excess",
    # people and organisations
    "customer client buyer member guest kunde kundin auftraggeber käufer insured",
    "insurer insurance versicherer versicherung",
    "supplier vendor seller lieferant verkäufer",
    "employee employees staff worker personnel mitarbeiter angestellte beschäftigte",
    "author writer verfasser autor autorin written wrote geschrieben",
    "founder founded gründer gegründet established started gründung",
    "ceo geschäftsführer chief",
    "company firm organisation organization unternehmen firma gesellschaft business",
    "contact ansprechpartner kontakt",
    "manager manage manages managed leiter leitung leiterin leitet",
    "name namen names 名前 氏名",
    "age alter alters old 年齢",
    "address adresse anschrift addresses 住所",
    "lives live wohnt wohnen residence residing 住所",
    "prepared erstellt verfasst author",
    "present attend attended attendee attendees participant participants anwesend teilnehmer teilgenommen",
    "everybody everyone jeder",
    "go goes went gone",
    "responsible prepared",
    "prepared wrote written writer author",
    "update updated change changed modified revised amended geändert aktualisiert",
    "tell tells inform informs talk notify notifies informieren",
    "time hour hours",
    "accept accepted accepts take takes",
    "signed signature unterschrieben unterzeichnet unterschrift",
    "insured versicherungsnehmer versicherte",
    # reaching people
    "phone telephone tel telefon telefonnummer mobile handy fon",
    "email mail emailadresse",
    "website url webseite homepage web site internet",
    "fax telefax",
    # time
    "date dated issued printed published datum 日付",
    "start begin beginning beginn anfang starts began begins",
    "expire expires expired end ends",
    "limit allowance cap grenze",
    "end ending ende finish finished ends until till bis",
    "deadline frist stichtag due",
    "time uhrzeit zeit showtime",
    "year jahr baujahr",
    "month monat",
    "duration runtime laufzeit dauer period",
    "valid validity gültig gültigkeit",
    "delivery lieferung liefertermin lieferdatum shipping shipped",
    # things
    "vehicle car auto fahrzeug wagen pkw automobile",
    "mileage odometer kilometerstand",
    "plate kennzeichen",
    "color colour farbe",
    "manufacturer maker make hersteller marke brand",
    "model modell",
    "ready finished done complete completed fertig abgeschlossen bereit",
    "repair repairs repariert reparatur reparieren fixed fix instandsetzung",
    "replace replaced ersetzt ausgetauscht austausch",
    "damage schaden schäden beschädigung damaged",
    "product item article artikel produkt position goods ware",
    "quantity qty menge stück anzahl count stock bestand units",
    "number no nummer nr id",
    "transaction txn transaktion",
    "reference ref referenz",
    "authorization auth autorisierung",
    "account acct konto",
    "department dept abteilung",
    "appointment termin",
    "birth born dob geburtsdatum geboren",
    "percent percentage pct prozent",
    "maximum max upper high highest höchst",
    "minimum min lower low lowest",
    "identifier id kennung identification",
    "code kennzahl",
    "category kategorie type art",
    "status zustand state",
    "note remark comment bemerkung hinweis anmerkung notes notiz",
    "description beschreibung bezeichnung",
    "location place ort standort site position headquarters headquartered",
    "city stadt town",
    "country land nation",
    "warehouse storage stored store lager lagerhaus gelagert",
    "room raum zimmer",
    "film movie spielfilm",
    "theater theatre cinema kino",
    "screen saal leinwand",
    "show screening vorstellung",
    "agency agentur",
    "warranty guarantee guaranteed garantie gewährleistung",
    "return returns rückgabe refund rückerstattung",
    "contract agreement vertrag vereinbarung",
    "terminate termination cancel cancellation kündigung kündigen kündigungsfrist notice",
    "rent miete mietzins",
    "policy police",
    "claim schadennummer schadensnummer",
    "order bestellung auftrag",
    "estimate quote quotation kostenvoranschlag angebot offer",
    "report bericht",
    "audit prüfung revision",
    "buy bought acquire acquired acquisition purchase purchased kauf gekauft erworben übernahme",
    "value worth wert",
    "advance ahead beforehand vorher voraus",
    "average mean durchschnitt durchschnittlich",
    "share anteil quote",
    "goal target objective ziel",
    "task aufgabe todo action",
    "meeting besprechung sitzung",
    "decision decided beschluss beschlossen entscheidung",
    "responsible verantwortlich zuständig owner own owns owned",
    "recommendation recommend recommended empfehlung suggestion",
    "result ergebnis outcome finding",
    "risk risiko",
    "advantage benefit vorteil",
    "problem issue fault störung fehler",
    "cause reason ursache grund",
    "weight gewicht",
    "size größe dimension maße",
    "speed geschwindigkeit",
    "temperature temp temperatur",
    "population einwohner inhabitants",
    "capital hauptstadt",
    "hourly stundensatz rate",
    "hour stunde std",
    "labor labour arbeitszeit arbeit",
    "part teil ersatzteil",
    "occupancy auslastung",
    "points pts punkte",
    "cashier kassierer kassiererin",
    "member mitglied",
    "expected erwartet soll",
    "actual ist tatsächlich",
    "variance abweichung difference differenz",
    "headcount workforce belegschaft staff people persons person employee employees",
    "choose chose chosen select selected selection gewählt ausgewählt",
    "sell sold seller verkauft verkaufen",
    "send sent gesendet versandt",
    "build built gebaut",
    "lead led geleitet",
    "win won gewonnen winner",
    "meet met getroffen",
    "give gave given gegeben",
    "speak spoke spoken",
    "lose lost verloren",
    "leave left verlassen",
    "grow grew grown growth gewachsen wachstum",
    "fall fell fallen drop dropped decline gefallen",
    "rise rose risen increase increased gestiegen",
    "drive drove driven",
    "break broke broken",
    "teach taught",
    "bring brought",
    "become became",
    "know knew known",
    "begin began begun",
    "open opens opened opening eröffnung eröffnet",
    "close closes closed closing schließt geschlossen",
    "happen occur occurred",
    "doctor physician arzt ärztin",
    "vacation holiday leave urlaub urlaubstage",
    "remote home homeoffice",
)
"""Lines of words that mean the same in the labels of documents."""

SOFT: Final = words_in("""something anything somebody someone left expected
    planned scheduled listed given accepted accepts installed available possible needed
    required necessary allowed permitted employed employ employs bring brings available offered supported
    currently presently actually now today so far already still ever please
    large big high great item items product products unit units piece
    pieces stück article articles thing things method methods way ways form forms
    job role function option options occur occurred stored keep kept mounted held placed sort type types kinds
    erwartet geplant vorgesehen aktuell derzeit groß hoch artikel produkt produkte""")
"""Words that a question adds and documents rarely repeat: they say little about which passage answers."""
