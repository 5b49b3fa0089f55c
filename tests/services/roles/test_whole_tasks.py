"""Which tasks need everything that documents say, and which ask for one fact that stands somewhere in them."""

from typing import Final

import pytest
from processor_time import within

from poweron_services.actions.document_answer import MOST_READ, needs_everything

EVERYTHING: Final = {
    "en": (
        *(
            "Summarise the contract.",
            "List all codes.",
            "Compare the estimates.",
            "Give an overview",
            "Summary, please",
        ),
        *("Which are all names?", "What are the key points of the contract?", "How do the two offers compare?"),
        *(
            "What are the differences between the offers?",
            "Could you summarise the report?",
            "What is the sum of all fees?",
        ),
        *(
            "Write a report on the tenders.",
            "Export the table as CSV.",
            "Please export every row",
            "Export invoices as JSON",
        ),
        *(
            "What is the rent, and summarise the contract.",
            "Who signed? Then list every deadline.",
            "Translate the letter.",
        ),
        *("Extract the deadlines of every contract", "Give the price for each product.", "Convert the table into JSON"),
        *("Write the summary of the report.", "How would you summarise it?", "Give me a complete list of the parts."),
        *("What does each document say about the rent?", "List all codes on the price list."),
    ),
    "de": (
        *("Fasse den Vertrag zusammen", "Nenne alle Fristen.", "Vergleiche die Angebote", "Erstelle einen Bericht"),
        *(
            "Was sind die Unterschiede zwischen den Angeboten?",
            "Welche Fristen nennen alle Verträge?",
            "Kurze Zusammenfassung",
        ),
        *(
            "Können Sie den Vertrag zusammenfassen?",
            "Was sind die Kernaussagen?",
            "Gib mir einen Überblick über die Liste.",
        ),
        *("Übersetze den Brief.", "Erstelle eine vollständige Liste der Teile", "Exportiere die Tabelle als CSV"),
        *("Vergleiche den Bericht mit der Liste.", "Erstelle eine Übersicht der Fristen."),
    ),
    "fr": (
        *("Résume ce contrat", "Liste toutes les dates", "Compare les devis", "Fais un résumé du rapport"),
        *(
            "Quelles sont toutes les dates ?",
            "Quelles sont les différences entre les devis ?",
            "Pouvez-vous résumer ce contrat ?",
        ),
        *("Résumé du contrat", "Traduis la lettre", "Rédige un rapport sur les devis"),
    ),
    "it": (
        *("Riassumi il contratto", "Elenca tutte le date", "Confronta le offerte", "Puoi riassumere il contratto?"),
        *(
            "Quali sono tutte le scadenze?",
            "Quali sono le differenze tra le offerte?",
            "Scrivi una relazione sulle offerte",
        ),
    ),
    "es": (
        *("Resume el contrato", "Enumera todas las fechas", "Compara las ofertas", "Haz un resumen del contrato"),
        *(
            "¿Cuáles son todas las fechas?",
            "¿Cuáles son las diferencias entre las ofertas?",
            "¿Puedes resumir el contrato?",
        ),
    ),
    "others": (
        *(
            "Resuma o contrato",
            "Liste todas as datas",
            "Vat het contract samen",
            "Noem alle data",
            "Sammanfatta avtalet",
        ),
        *("Lista alla datum", "Sammenlign tilbuddene", "Nævn alle datoer", "Podsumuj umowę", "Wymień wszystkie daty"),
        *("Vad är skillnaden mellan anbuden?", "Wat zijn de verschillen tussen de offertes?"),
    ),
}
ONE_FACT: Final = {
    "en": (
        *("Which delivery code is named?", "When does the exhibition open?", "Who signed the contract?"),
        *("Which code is on the price list?", "When does work resume?", "Whose resume names a museum?"),
        *("Find the phone number on the resume.", "What is the export code?", "Find the import and export code."),
        *("Which code is on the price list for all customers?", "Which code is on the list of all parts?"),
        *("Which date stands in the summary?", "Find the date in the executive summary.", "Who translated the book?"),
        *("Name the translator.", "Who supplied the transformer?", "Find the power of the transformer."),
        *("What was the revenue compared with last year?", "Which make of car is in the report?"),
        *("Give me the date of the report.", "Tell me what the overview says about the rent.", "Who has a résumé?"),
        *("Is the resume attached?", "Does an export need a licence?", "Which list price has the lamp?"),
        *("What is the fee for every order?", "Name the contrast agent.", "Find the number of the converter."),
        *(
            "Which rooms are reserved, and for what price?",
            "Resume of Ada Quint: phone number",
            "Extract the list price.",
        ),
    ),
    "de": (
        *("Wann beginnt die Ausstellung?", "Wie hoch ist die Miete?", "Welcher Code steht auf der Preisliste?"),
        *(
            "Welches Datum steht in der Zusammenfassung?",
            "Nenne das Datum der Übersicht.",
            "Nenne die Vergleichsmiete.",
        ),
        *("Wer ist der Übersetzer?", "Nenne den Übersetzer.", "Welche Nummer steht auf der Liste aller Teile?"),
        *("Wie hoch ist der Umsatz im Vergleich zum Vorjahr?", "Welcher Rabatt gilt für alle Kunden?"),
        *("Wie viele Tonnen exportierte die Firma?", "Nenne die Frist aus dem Bericht."),
    ),
    "fr": (
        *(
            "Quel est le montant de la facture ?",
            "Quelle date figure dans le résumé ?",
            "Trouve la date dans le résumé.",
        ),
        *(
            "Qui a traduit le livre ?",
            "Quel code figure sur la liste de prix ?",
            "Quel tarif vaut pour tous les clients ?",
        ),
        *("Quel est le code d'export ?", "Qu\u2019est-ce qui figure dans le résumé ?", "Donne la date du rapport."),
    ),
    "it": (
        *("Quale codice è nella lista dei prezzi?", "Quando riprende il lavoro?", "Trova la data nel riassunto."),
        *("Chi ha tradotto il libro?", "Quale sconto vale per tutti i clienti?", "Qual è il codice di export?"),
    ),
    "es": (
        *(
            "¿Qué código figura en la lista de precios?",
            "¿Qué fecha figura en el resumen?",
            "Busca la fecha en el resumen.",
        ),
        *("¿Quién es el traductor?", "Nombra al traductor.", "¿Qué descuento vale para todos los clientes?"),
    ),
    "others": (
        *("Welke code staat op de prijslijst?", "Vilken kod står i prislistan?", "Który kod jest na liście?"),
        *("Hvilken dato står i oversikten?", "Que data consta no resumo?", "Welke datum staat in het overzicht?"),
    ),
}


@pytest.mark.parametrize("language", EVERYTHING)
def test_tasks_that_need_everything_are_told_by_their_words_in_every_language_that_is_known(language: str) -> None:
    assert [task for task in EVERYTHING[language] if not needs_everything(task)] == []


@pytest.mark.parametrize("language", ONE_FACT)
def test_a_task_for_one_fact_does_not_need_everything_whatever_it_names(language: str) -> None:
    assert [task for task in ONE_FACT[language] if needs_everything(task)] == []


@pytest.mark.parametrize("words", ["in the a ", "list of the ", "fass ", "for a ", "export "])
def test_no_task_takes_long_to_judge(words: str) -> None:
    with within(1):
        needs_everything(words * MOST_READ)
