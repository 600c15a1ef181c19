"""Guesses the language of a text, as far as stemming needs it. Pure functions.

    non-Latin script       by script: Cyrillic → russian, Greek → greek, Arabic → arabic, Devanagari → hindi …
    Latin script           the language with the most stop words in the text
    too few stop words     english, the most common language around code, tables and names

A wrong guess costs little: a query is stemmed for every language of its base, so that it still matches a text that
was stemmed for the wrong language.
"""

import itertools
import re
from collections import Counter
from collections.abc import Sequence

ENGLISH = "english"

# Frequent words that distinguish a language from similar ones; words that many languages share are left out.
STOP_WORDS = {
    ENGLISH: "the of and to is that for with are this was it be which by not have from or",
    "german": "der die das und ist nicht ein eine den mit auf dem zu von sich werden wird auch im für",
    "french": "le les des est une dans que qui pour sur pas du et au avec sont cette ce nous vous",
    "spanish": "el los las una que por con para del está como pero más sus este son y es lo fue",
    "portuguese": "o os uma não com para do da em dos das por mais como foi são ao pelo também você",
    "italian": "il di che non è una per sono con del della gli nel anche più alla questo dei ha lo",
    "dutch": "het een van en niet dat zijn op voor met is aan wordt ook worden bij deze door naar of",
    "swedish": "och att det som är inte för av en ett på med har till den om kan från eller",
    "danish": "og at det som er ikke for af en et på med har til den kan fra eller blev også",
    "norwegian": "og at det som er ikke for av en et på med har til den kan fra eller ble også",
    "finnish": "ja on ei että se oli ovat mutta tai joka kun myös sen hän voi olla niin kuin ole",
    "hungarian": "a az és hogy nem egy is van meg csak de volt ez vagy már mint még azt ha el",
    "turkish": "ve bir bu için ile olarak da de daha çok olan gibi ne en kadar var sonra değil mi ya",
    "romanian": "și în de la cu este pe nu care mai un din sunt pentru că sau fost ce au prin",
    "polish": "nie się na do jest że w z to jak o ale po co tak za od czy już są",
    "czech": "a se na je že v to s z do o ale jako za by jsou nebo který pro při",
    "catalan": "els les una amb per que del és i en no més com són aquest però va ha seva",
    "indonesian": "yang dan di itu dengan untuk tidak ini dari dalam akan pada juga saya ke karena ada bisa",
}
_VOTES: dict[str, tuple[str, ...]] = {}
for _language, _words in STOP_WORDS.items():
    for _word in _words.split():
        for _form in (_word, _word.capitalize(), _word.upper()):
            if _language not in _VOTES.get(_form, ()):
                _VOTES[_form] = (*_VOTES.get(_form, ()), _language)

_SCRIPTS = (
    ("russian", re.compile("[\u0400-\u04ff]")),
    ("greek", re.compile("[\u0370-\u03ff\u1f00-\u1fff]")),
    ("arabic", re.compile("[\u0600-\u06ff]")),
    ("hindi", re.compile("[\u0900-\u097f]")),
    ("tamil", re.compile("[\u0b80-\u0bff]")),
    ("armenian", re.compile("[\u0530-\u058f]")),
    ("yiddish", re.compile("[\u0590-\u05ff]")),
)
_ANY_SCRIPT = re.compile("[\u0370-\u06ff\u0900-\u097f\u0b80-\u0bff\u1f00-\u1fff]")  # any of the above
_WORD = re.compile(r"[^\W\d_]+")
_SAMPLE_CHARACTERS = 1000
_SAMPLE_WORDS = 200
_MIN_VOTES = 3  # with fewer stop words, a guess is no better than english


def detect_language(text: str, words: Sequence[str] | None = None) -> str:
    """The language whose stemmer fits `text` best. Callers that have split the text already can pass its `words`."""
    if not text.isascii() and (language := _language_of_script(text[:_SAMPLE_CHARACTERS])) is not None:
        return language
    if words is None:
        words = _WORD.findall(text[: 8 * _SAMPLE_WORDS])
    stop_words = filter(_VOTES.__contains__, words[:_SAMPLE_WORDS])
    votes = Counter(itertools.chain.from_iterable(map(_VOTES.__getitem__, stop_words)))
    if not votes:
        return ENGLISH
    language, count = max(votes.items(), key=lambda vote: (vote[1], vote[0] == ENGLISH, vote[0]))
    return language if count >= _MIN_VOTES and count > votes[ENGLISH] else ENGLISH


def _language_of_script(sample: str) -> str | None:
    if not _ANY_SCRIPT.search(sample):
        return None
    letters = sum(1 for character in sample if character.isalpha())
    for language, script in _SCRIPTS:
        if 2 * len(script.findall(sample)) > letters:
            return language
    return None
