"""The built-in model's most frequent phrases in further languages; missing phrases are in English."""
# ruff: noqa: RUF001 - letters of other scripts are what this is about

from typing import Final

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
