"""The language of a prompt: right, or in doubt, and not a wrong guess."""

import pytest

from poweron_services.text.language_detection import detect

PROMPTS = [
    ("en", "What is the total of the estimate?"),
    ("en", "Summarise this contract in five bullet points"),
    ("en", "Who signed the minutes and when?"),
    ("en", "List all suppliers with their prices"),
    ("en", "Please compare both offers and write a report"),
    ("en", "How much does the roof cost?"),
    ("en", "What does Rechnung 4711 say about Zahlungsfrist?"),
    ("de", "Wie hoch ist die Gesamtsumme des Angebots?"),
    ("de", "Fasse diesen Vertrag in fünf Punkten zusammen"),
    ("de", "Wer hat das Protokoll unterschrieben?"),
    ("de", "Bitte vergleiche die beiden Angebote"),
    ("de", "Welche Fristen stehen im Vertrag?"),
    ("de", "Erstelle eine Liste aller Lieferanten mit Preisen"),
    ("fr", "Quel est le montant total du devis ?"),
    ("fr", "Résume ce contrat en cinq points"),
    ("fr", "Qui a signé le procès-verbal ?"),
    ("fr", "Compare les deux offres et rédige un rapport"),
    ("fr", "Combien coûte la toiture ?"),
    ("it", "Qual è il totale del preventivo?"),
    ("it", "Riassumi questo contratto in cinque punti"),
    ("it", "Chi ha firmato il verbale?"),
    ("it", "Quanto costa il tetto della casa?"),
    ("es", "¿Cuál es el total del presupuesto?"),
    ("es", "Resume este contrato en cinco puntos"),
    ("es", "¿Quién firmó el acta de la reunión?"),
    ("es", "¿Cuánto cuesta el tejado de la casa?"),
    ("pt", "Qual é o valor total do orçamento?"),
    ("pt", "Resuma este contrato em cinco pontos"),
    ("pt", "Quem assinou a ata da reunião?"),
    ("pt", "Quanto custa o telhado da casa?"),
    ("nl", "Wat is het totaalbedrag van de offerte?"),
    ("nl", "Vat dit contract samen in vijf punten"),
    ("nl", "Wie heeft de notulen ondertekend?"),
    ("nl", "Hoeveel kost het dak van het huis?"),
    ("sv", "Vad är den totala kostnaden för offerten?"),
    ("pl", "Jaka jest łączna kwota oferty?"),
    ("da", "Hvem har underskrevet referatet fra mødet?"),
    ("ja", "合計はいくらですか"),
    ("ko", "총액은 얼마입니까"),
    ("el", "Ποιο είναι το συνολικό ποσό;"),
    # not looked at when the small words were chosen
    ("en", "Which of the invoices were paid late?"),
    ("en", "I need an overview of our insurance policies"),
    ("en", "Draft a reply to the landlord about the heating"),
    ("de", "Gibt es im Mietvertrag eine Klausel zur Kündigung?"),
    ("de", "Ich brauche eine Übersicht der Versicherungen"),
    ("de", "Rechne die Reisekosten für Mai zusammen"),
    ("fr", "Est-ce que le loyer est indexé ?"),
    ("fr", "Prépare une réponse au propriétaire"),
    ("it", "Prepara una risposta per il proprietario"),
    ("it", "Le fatture sono state pagate in ritardo?"),
    ("es", "Prepara una respuesta para el propietario"),
    ("pt", "Prepare uma resposta para o proprietário"),
    ("pt", "As faturas foram pagas com atraso?"),
    ("nl", "Maak een overzicht van de verzekeringen"),
    ("nl", "Zijn de facturen te laat betaald?"),
]
MIXED = [
    ("en", "What does Rechnung 4711 say about Zahlungsfrist?"),
    ("en", "Show invoices of Société Générale and Crédit Agricole"),
    ("en", "Translate 'Guten Tag, wie geht es Ihnen' into English"),
    ("de", "Was bedeutet „the party of the first part“ in diesem Vertrag?"),
    ("de", "Was ist das total amount?"),
    ("de", "Fasse https://example.com/the/and/of für mich zusammen"),
]
DOUBTFUL = [
    "SKU-9201 12/20/24 4711",
    "Zürich Hamburg Milano Paris",
    "Anna Müller, Jean Dupont, Marco Rossi",
    "Müller Meier Schmidt Schulze",
    "San Francisco Los Angeles Santa Monica",
    "Deloitte Touche Tohmatsu Hamburg GmbH Co KG",
    "2024 2025 2026 3.5 17%",
    "IBAN DE89 3704 0044 0532 0130 00",
    "https://example.com/a/b",
    '{"a": 1, "b": [1,2]}',
    "Report",
    "Summary",
    "Rechnung 4711",
    "ok",
    "?",
    "",
    " \n",
    "asdf qwer zxcv",
    "Ursula von der Leyen",
    "Charles de la Tour",
    "Leonardo da Vinci",
    "Museum of Modern Art",
    "Rio de Janeiro e São Paulo",
    "Hvem har signert referatet fra møtet?",  # Norwegian, or nearly Danish
    "¿Se pagaron tarde las facturas?",  # not looked at before either: one small word is not enough
    "Kokonaissumma on mikä?",  # a language whose words are not known here
    "Какова общая сумма?",
]


@pytest.mark.req("D-01")
@pytest.mark.parametrize(("language", "prompt"), [*PROMPTS, *MIXED])
def test_the_language_of_a_prompt_is_found_out(language: str, prompt: str) -> None:
    assert detect(prompt) == language


@pytest.mark.req("D-01")
@pytest.mark.parametrize("prompt", DOUBTFUL)
def test_a_language_in_doubt_is_none(prompt: str) -> None:
    assert detect(prompt) is None


@pytest.mark.parametrize(
    "prompt",
    ["x" * 20_000, "\x00\ud800", "\U0001f600" * 50, "'" * 20_000, '"' * 20_000, " de " * 5_000, "\u201e" * 20_000],
)
def test_no_prompt_is_too_strange_to_be_looked_at(prompt: str) -> None:
    assert detect(prompt) is None
