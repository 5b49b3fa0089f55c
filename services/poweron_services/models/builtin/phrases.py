"""The built-in model's own sentences: all in English and German, most in French, some in other languages."""

from collections.abc import Sequence
from typing import Final

ROMANCE: Final[dict[str, dict[str, str]]] = {
    "fr": {
        "not_said": "Les documents ne le disent pas : « {question} »",
        "not_said_in_part": "Ce qui a été lu des documents ne le dit pas : « {question} »",
        "other_language": "Rien n'a été trouvé pour « {question} ». Les documents sont dans une autre langue ; "
        "posez la question dans celle-ci.",
        "pages_not_said": "Les pages lues ne le disent pas : « {question} »",
        "pages_in_other_language": "Rien n'a été trouvé pour « {question} ». Les pages sont dans une autre langue ; "
        "posez la question dans celle-ci.",
        "page_not_said": "La page ne le dit pas : « {question} »",
        "pages_on": "Ce que disent des pages du web : {about}",
        "stands_above": "Pour « {question} », rien n'a été trouvé d'autre que ce qui figure ci-dessus.",
        "closest": "Ces passages sont les plus proches de « {question} » ; voyez si l'un d'eux y répond :",
        "no_documents": "Il n'y a pas de documents pour répondre. Veuillez remettre ceux qui contiennent la réponse.",
        "empty_documents": "Aucun texte n'a pu être lu dans {names} ; rien ne peut donc en être dit.",
        "read_in_part": "{name} n'a pas été lu en entier : {notes}",
        "cut_off": "Le texte a été coupé.",
        "read_with_notes": "À propos de la lecture de {name} : {notes}",
        "summary_of": "Résumé de {names}",
        "comparison_of": "Comparaison de {names}",
        "and": " et ",
        "side_by_side": "Les montants que nomment les documents, côte à côte ; "
        "un tiret figure là où un document n'en nomme pas.",
        "amounts": "Montants côte à côte",
        "only_in": "Seulement dans {name}",
        "facts": "Autres données côte à côte",
        "item": "Poste",
        "fact": "Donnée",
        "amount": "Montant",
        "difference": "Différence",
        "total_of": "{amount} dans {name}",
        "totals": "Le total est de {each}.",
        "totals_differ": "Le total est de {each} ; la différence est de {difference}.",
        "nothing_shared": "Les documents ne nomment aucun montant du même nom ; aucun n'est donc mis côte à côte.",
        "source": "Source : {place}",
        "more_rows": "{count} autres lignes ne sont pas montrées.",
        "more_say_it": "{count} autres passages le disent et ne sont pas montrés ; "
        "demandez-les tous, ou moins, pour les voir.",
        "report_done": "Le rapport est prêt.",
        "file_done": "Le résultat est prêt.",
        "report_written": "Un rapport est écrit.",
        "file_written": "Un fichier est écrit.",
        "step_failed": "Toutes les étapes n'ont pas réussi : {failure}",
        "failed": "Cela n'a pas réussi : {reason}",
        "partly_failed": "Une partie n'a pas réussi : {reason}",
        "nothing": "Il n'y a pas de résultat.",
    },
    "es": {
        "not_said": "Los documentos no lo dicen: «{question}»",
        "not_said_in_part": "Lo que se leyó de los documentos no lo dice: «{question}»",
        "closest": "Estos pasajes son los más cercanos a «{question}»; vea si alguno responde:",
        "summary_of": "Resumen de {names}",
        "comparison_of": "Comparación de {names}",
        "and": " y ",
        "side_by_side": "Los importes que nombran los documentos, uno junto a otro; una raya donde no hay ninguno.",
        "amounts": "Importes comparados",
        "only_in": "Solo en {name}",
        "facts": "Otros datos comparados",
        "item": "Concepto",
        "fact": "Dato",
        "amount": "Importe",
        "difference": "Diferencia",
        "total_of": "{amount} en {name}",
        "totals": "El total es de {each}.",
        "totals_differ": "El total es de {each}; la diferencia es de {difference}.",
        "nothing_shared": "Los documentos no nombran ningún importe del mismo nombre; por eso ninguno se compara.",
        "source": "Fuente: {place}",
        "report_done": "El informe está listo.",
        "file_done": "El resultado está listo.",
        "report_written": "Se ha escrito un informe.",
        "file_written": "Se ha escrito un archivo.",
    },
    "it": {
        "not_said": "I documenti non lo dicono: «{question}»",
        "not_said_in_part": "Ciò che è stato letto dei documenti non lo dice: «{question}»",
        "closest": "Questi passaggi sono i più vicini a «{question}»; verifichi se uno risponde:",
        "summary_of": "Riassunto di {names}",
        "comparison_of": "Confronto di {names}",
        "and": " e ",
        "side_by_side": "Gli importi indicati dai documenti, uno accanto all'altro; un trattino dove non ce n'è.",
        "amounts": "Importi a confronto",
        "only_in": "Solo in {name}",
        "facts": "Altri dati a confronto",
        "item": "Voce",
        "fact": "Dato",
        "amount": "Importo",
        "difference": "Differenza",
        "total_of": "{amount} in {name}",
        "totals": "Il totale è di {each}.",
        "totals_differ": "Il totale è di {each}; la differenza è di {difference}.",
        "nothing_shared": "I documenti non indicano importi con lo stesso nome; perciò nessuno è a confronto.",
        "source": "Fonte: {place}",
        "report_done": "La relazione è pronta.",
        "file_done": "Il risultato è pronto.",
        "report_written": "È stata scritta una relazione.",
        "file_written": "È stato scritto un file.",
    },
}
MORE: Final[dict[str, dict[str, str]]] = {
    "pt": {
        "not_said": "Os documentos não dizem: “{question}”",
        "not_said_in_part": "O que foi lido dos documentos não diz: “{question}”",
        "closest": "Estas passagens são as mais próximas de “{question}”; veja se alguma responde:",
        "empty_documents": "Não foi possível ler nenhum texto em {names}.",
        "read_in_part": "{name} não foi lido por inteiro: {notes}",
        "read_with_notes": "Sobre a leitura de {name}: {notes}",
    },
    "nl": {
        "not_said": "De documenten zeggen dit niet: “{question}”",
        "not_said_in_part": "Wat van de documenten is gelezen, zegt dit niet: “{question}”",
        "closest": "Deze passages komen het dichtst bij “{question}”; kijk of een ervan antwoord geeft:",
        "empty_documents": "Uit {names} kon geen tekst worden gelezen.",
        "read_in_part": "{name} is niet helemaal gelezen: {notes}",
        "read_with_notes": "Over het lezen van {name}: {notes}",
    },
    "pl": {
        "not_said": "Dokumenty tego nie mówią: „{question}”",
        "not_said_in_part": "Przeczytana część dokumentów tego nie mówi: „{question}”",
        "closest": "Te fragmenty są najbliższe pytaniu „{question}”; proszę sprawdzić, czy któryś na nie odpowiada:",
        "empty_documents": "Nie udało się odczytać tekstu z {names}.",
        "read_in_part": "Nie przeczytano całości {name}: {notes}",
        "read_with_notes": "O odczycie {name}: {notes}",
    },
    "zh": {
        "not_said": "文件中没有说明：“{question}”",
        "not_said_in_part": "已读取的文件部分没有说明：“{question}”",
        "closest": "以下段落与“{question}”最接近，请看其中是否有答案：",
        "empty_documents": "无法从{names}读取任何文字。",
        "read_in_part": "{name}没有全部读取：{notes}",
        "read_with_notes": "关于{name}的读取：{notes}",
    },
    "ja": {
        "not_said": "文書には書かれていません：「{question}」",
        "not_said_in_part": "読み取った部分には書かれていません：「{question}」",
        "closest": "「{question}」に最も近い箇所です。答えになっているかご確認ください：",
        "empty_documents": "{names}から文字を読み取れませんでした。",
        "read_in_part": "{name}はすべては読み取れませんでした：{notes}",
        "read_with_notes": "{name}の読み取りについて：{notes}",
    },
    "ar": {
        "not_said": "لا تذكر الوثائق ذلك: «{question}»",
        "not_said_in_part": "لا يذكر ما قُرئ من الوثائق ذلك: «{question}»",
        "closest": "هذه المقاطع هي الأقرب إلى «{question}»؛ يُرجى التحقق مما إذا كان أحدها يجيب عنه:",
        "empty_documents": "تعذرت قراءة أي نص من {names}.",
        "read_in_part": "لم يُقرأ {name} كاملا: {notes}",
        "read_with_notes": "حول قراءة {name}: {notes}",
    },
}
_PHRASES: Final[dict[str, dict[str, str]]] = {
    "not_said": {
        "en": 'The documents do not say: "{question}"',
        "de": "Die Dokumente sagen dazu nichts: „{question}“",
    },
    "not_said_in_part": {
        "en": 'What was read of the documents does not say: "{question}"',
        "de": "Was von den Dokumenten gelesen wurde, sagt dazu nichts: „{question}“",
    },
    "only_listed": {
        "en": 'It is only known which files and folders there are; none was read to answer: "{question}"',
        "de": "Es ist nur bekannt, welche Dateien und Ordner es gibt; keine wurde dazu gelesen: „{question}“",
    },
    "other_language": {
        "en": 'Nothing was found for "{question}". The documents are in another language; ask in it to find more.',
        "de": "Zu „{question}“ wurde nichts gefunden. Die Dokumente sind in einer anderen Sprache; fragen Sie in ihr.",
    },
    "pages_not_said": {
        "en": 'The pages that were read do not say: "{question}"',
        "de": "Die gelesenen Seiten sagen dazu nichts: „{question}“",
    },
    "pages_in_other_language": {
        "en": 'Nothing was found for "{question}". The pages are in another language; ask in it to find more.',
        "de": "Zu „{question}“ wurde nichts gefunden. Die Seiten sind in einer anderen Sprache; fragen Sie in ihr.",
    },
    "page_not_said": {
        "en": 'The page does not say: "{question}"',
        "de": "Die Seite sagt dazu nichts: „{question}“",
    },
    "document_silent": {"en": "{name} does not say it.", "de": "{name} sagt dazu nichts."},
    "documents_same": {"en": "The documents agree.", "de": "Die Dokumente stimmen überein."},
    "documents_different": {"en": "The documents differ.", "de": "Die Dokumente unterscheiden sich."},
    "no_values": {
        "en": 'Nothing of this kind was recognised in the documents: "{question}"',
        "de": "In den Dokumenten wurde nichts dieser Art erkannt: „{question}“",
    },
    "by_form": {
        "en": "Names are recognised by their form: some may be missing, and some may name something else.",
        "de": "Namen werden an ihrer Form erkannt: Einige können fehlen, und einige können etwas anderes nennen.",
    },
    "pages_on": {"en": "What pages of the web say: {about}", "de": "Was Seiten im Web sagen: {about}"},
    "stands_above": {
        "en": 'For "{question}" nothing more was found than what is above.',
        "de": "Zu „{question}“ wurde nichts gefunden außer dem, was oben steht.",
    },
    "closest": {
        "en": 'These passages come closest to "{question}"; see whether one of them answers it:',
        "de": "Diese Stellen kommen der Frage „{question}“ am nächsten; sehen Sie, ob eine davon sie beantwortet:",
    },
    "words_alone": {
        "en": "Only words were compared, not what they mean: what is said in other words may be missed.",
        "de": "Nur Wörter wurden verglichen, nicht ihr Sinn: Was anders gesagt ist, kann fehlen.",
    },
    "beyond": {
        "en": "The built-in model quotes what documents say; it writes nothing new, such as a translation, a reply or "
        "better words. A language model does: name one in POWERON_MODEL (docs/models.md).",
        "de": "Das eingebaute Modell zitiert, was Dokumente sagen; es schreibt nichts Neues wie eine Übersetzung, eine "
        "Antwort oder bessere Worte. Ein Sprachmodell kann das: Nennen Sie eines in POWERON_MODEL "
        "(docs/models.md).",
    },
    "no_documents": {
        "en": "There are no documents to answer from. Please hand over the documents that hold the answer.",
        "de": "Es gibt keine Dokumente für eine Antwort. Bitte übergeben Sie die Dokumente, in denen sie steht.",
    },
    "empty_documents": {
        "en": "No text could be read from {names}, so nothing can be said about it.",
        "de": "Aus {names} konnte kein Text gelesen werden, darum lässt sich dazu nichts sagen.",
    },
    "read_in_part": {
        "en": "Not everything was read of {name}: {notes}",
        "de": "Nicht alles wurde gelesen von {name}: {notes}",
    },
    "cut_off": {"en": "its text was cut off.", "de": "Der Text wurde abgeschnitten."},
    "read_with_notes": {"en": "About the reading of {name}: {notes}", "de": "Zum Lesen von {name}: {notes}"},
    "summary_of": {"en": "Summary of {names}", "de": "Zusammenfassung von {names}"},
    "comparison_of": {"en": "Comparison of {names}", "de": "Vergleich von {names}"},
    "and": {"en": " and ", "de": " und "},
    "side_by_side": {
        "en": "The amounts that the documents name, side by side; a dash means that a document names none.",
        "de": "Die Beträge aus den Dokumenten nebeneinander; ein Strich steht, wo ein Dokument keinen nennt.",
    },
    "nothing_shared": {
        "en": "The documents name no amount under the same name, so none can be compared.",
        "de": "Die Dokumente nennen keinen Betrag unter demselben Namen, darum steht keiner neben dem anderen.",
    },
    "not_compared": {
        "en": "Not compared here: {names}.",
        "de": "Hier nicht verglichen: {names}.",
    },
    "rows_shared": {
        "en": "{count} rows are in all tables by their {name}; {changed} of them differ.",
        "de": "{count} Zeilen stehen nach {name} in allen Tabellen; {changed} davon unterscheiden sich.",
    },
    "differences": {"en": "What differs", "de": "Was sich unterscheidet"},
    "column": {"en": "Column", "de": "Spalte"},
    "total_of": {"en": "{amount} in {name}", "de": "{amount} in {name}"},
    "totals": {"en": "The total is {each}.", "de": "Die Gesamtsumme ist {each}."},
    "totals_differ": {
        "en": "The total is {each}; the difference is {difference}.",
        "de": "Die Gesamtsumme ist {each}; die Differenz ist {difference}.",
    },
    "amounts": {"en": "Amounts side by side", "de": "Beträge im Vergleich"},
    "only_in": {"en": "Only in {name}", "de": "Nur in {name}"},
    "facts": {"en": "Further facts side by side", "de": "Weitere Angaben im Vergleich"},
    "item": {"en": "Item", "de": "Posten"},
    "fact": {"en": "Fact", "de": "Angabe"},
    "amount": {"en": "Amount", "de": "Betrag"},
    "difference": {"en": "Difference", "de": "Differenz"},
    "source": {"en": "Source: {place}", "de": "Quelle: {place}"},
    "more_rows": {"en": "{count} more rows are not shown.", "de": "{count} weitere Zeilen sind nicht gezeigt."},
    "more_say_it": {
        "en": "{count} more passages say it and are not shown; ask for all of something, or for less, to see them.",
        "de": "{count} weitere Stellen sagen es und sind nicht gezeigt; fragen Sie nach allem oder nach weniger davon.",
    },
    "report_done": {"en": "The report is done.", "de": "Der Bericht ist fertig."},
    "file_done": {"en": "The result is ready.", "de": "Das Ergebnis ist fertig."},
    "report_written": {"en": "A report is written.", "de": "Ein Bericht liegt vor."},
    "file_written": {"en": "A file is written.", "de": "Eine Datei liegt vor."},
    "step_failed": {"en": "Not every step worked: {failure}", "de": "Nicht jeder Schritt ist gelungen: {failure}"},
    "failed": {"en": "This could not be done: {reason}", "de": "Das ist nicht gelungen: {reason}"},
    "partly_failed": {"en": "A part could not be done: {reason}", "de": "Ein Teil ist nicht gelungen: {reason}"},
    "nothing": {"en": "There is no result.", "de": "Es gibt kein Ergebnis."},
}


def listed(names: Sequence[str], language: str) -> str:
    """Join names with commas and a final “and”."""
    return say("and", language).join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def say(phrase: str, language: str, **values: object) -> str:
    """Return a phrase in the language, or in English if there is no translation."""
    texts = _PHRASES[phrase]
    translation = {**ROMANCE, **MORE}.get(language[:2], {}).get(phrase)
    return (translation or texts.get(language[:2], texts["en"])).format(**values)
