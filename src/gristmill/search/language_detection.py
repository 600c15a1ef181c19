"""Guesses the language of a text, as far as stemming needs it. Pure functions.

    script                 the one that most letters have; some belong to one language (Greek, Tamil, Armenian)
    words and letters      of a script that several languages share, the language with the most of its frequent words and of
                           the letters that only it has
    too few of them        the script's most common language: english, russian, arabic, hebrew, hindi

A wrong guess costs little: a query is stemmed for every language of its base, so that it still matches a text that
was stemmed for the wrong language.
"""

import itertools
import re
from collections import Counter
from collections.abc import Sequence

ENGLISH = "english"

# Frequent words of each language. A word that several of them have is listed with each: else it would speak for one alone.
STOP_WORDS = {
    ENGLISH: "the of and to is that for with are this was it be which by not have from or what in who how",
    "german": "der die das und ist nicht ein eine den mit auf dem zu von sich werden wird auch im für wie was welche wurde wer",
    "french": "le les des est une dans que qui pour sur pas du et au avec sont cette ce nous vous de la en un quel quelle",
    "spanish": "el los las una que por con para del está como pero más sus este son y es lo fue de la en un se no qué cuál quién",
    "portuguese": "o os uma não com para do da em dos das por mais como foi são ao pelo também você de e que um se no na qual",
    "italian": "il di che non è una per sono con del della gli nel anche più alla questo dei ha lo la un e si le quale chi",
    "dutch": "het een van en niet dat zijn op voor met is aan wordt ook worden bij deze door naar of de wat welke",
    "swedish": "och att det som är inte för av en ett på med har till den om kan från eller vad vilken",
    "danish": "og at det som er ikke for af en et på med har til den kan fra eller blev også hvad hvilken",
    "norwegian": "og at det som er ikke for av en et på med har til den kan fra eller ble også hva hvilken",
    "finnish": "ja on ei että se oli ovat mutta tai joka kun myös sen hän voi olla niin kuin ole",
    "hungarian": "a az és hogy nem egy is van meg csak de volt ez vagy már mint még azt ha el",
    "turkish": "ve bir bu için ile olarak da de daha çok olan gibi ne en kadar var sonra değil mi ya hangi nedir kim kaç nasıl",
    "romanian": "și în de la cu este pe nu care mai un din sunt pentru că sau fost ce au prin a o se",
    "polish": "nie się na do jest że w z to jak o ale po co tak za od czy już są i kto jaki",
    "czech": "a se na je že v to s z do o ale jako za by jsou nebo který pro při i kdo",
    "catalan": "els les una amb per que del és i en no més com són aquest però va ha seva de la un el",
    "indonesian": "yang dan di itu dengan untuk tidak ini dari dalam akan pada juga saya ke karena ada bisa",
    "vietnamese": "là và của một có được các trong đã với cho người này không những vào từ về khi trên đến",
    "estonian": "ja on oli ning ta ka mis et ei kui oma või kes tema kuid selle kus aga see ehk",
    "lithuanian": "ir buvo į yra nuo su iš kad kaip iki bei apie savo prie ar jo tik taip arba dėl",
    "basque": "eta da izan bat zen zuen bere ez edo ere egin beste zuten ziren baina du dira hau baino duen",
    "irish": "an na agus ar ag go le sé bhí mar leis ina ach raibh nó atá seo siad sin chun",
    "russian": "и в не на что он как это по но из за от так о же для был она к",
    "ukrainian": "і в на з та до що від не для як його є був було й також або про який",
    "bulgarian": "на и в е от се за с да са през като по че не които който това или при",
    "serbian": "је и у се на су од да за са из који као која био што али није или би",
    "arabic": "في من على إلى أن التي هذا هذه كان ما عن مع الذي لا أو بين كما ذلك كل بعد",
    "persian": "و در به از که این را با است آن برای یک خود شد یا شده بود هم می تا",
    "urdu": "کے میں کی اور سے کا اس کو ہے نے پر ایک کہ یہ بھی ہیں کر جو نہیں تھا",
    "hebrew": "של את על הוא עם היה גם היא לא בין או כי זה כל אך הם יותר כמו רק אם",
    "yiddish": "און די דער פון איז אין מיט אויף צו דאס האט ניט זיך א וואס ער זיי אז פאר זיין",
    "hindi": "के में है की से का को और पर यह था एक ने कि हैं ही भी इस लिए नहीं",
    "nepali": "को र मा छ हो यो पनि भएको तथा यस लागि छन् थियो नै गर्न ले आफ्नो रहेको भने तर",
}
# Letters of one language, or of few, among those that share their script.
_LETTERS = {
    "vietnamese": "đơưĐƠƯ" + "".join(map(chr, range(0x1EA0, 0x1EFA))),
    "german": "ßäöü",
    "french": "çèêœ",
    "spanish": "ñ¿¡",
    "portuguese": "ãõ",
    "swedish": "åäö",
    "danish": "åæø",
    "norwegian": "åæø",
    "finnish": "äö",
    "estonian": "äöüõ",
    "hungarian": "őűö",
    "turkish": "ğışİçöü",
    "romanian": "ășțâîşţ",
    "polish": "łńśźżąę",
    "czech": "ěřůňť",
    "lithuanian": "ėįųūąę",
    "russian": "ыэё",
    "ukrainian": "іїєґ",
    "serbian": "ђћџљњј",
    "persian": "پچژگکی",
    "urdu": "ٹڈڑںےہپچگکی",
}
_SCRIPTS = {
    # The default of each script comes first.
    "Cyrillic": (re.compile("[\u0400-\u04ff]"), ("russian", "ukrainian", "bulgarian", "serbian")),
    "Greek": (re.compile("[\u0370-\u03ff\u1f00-\u1fff]"), ("greek",)),
    "Arabic": (re.compile("[\u0600-\u06ff]"), ("arabic", "persian", "urdu")),
    "Devanagari": (re.compile("[\u0900-\u097f]"), ("hindi", "nepali")),
    "Tamil": (re.compile("[\u0b80-\u0bff]"), ("tamil",)),
    "Armenian": (re.compile("[\u0530-\u058f]"), ("armenian",)),
    "Hebrew": (re.compile("[\u0590-\u05ff]"), ("hebrew", "yiddish")),
}
_OTHER_SCRIPTS = frozenset(language for _, languages in _SCRIPTS.values() for language in languages)
_LATIN = (ENGLISH, *(language for language in STOP_WORDS if language not in _OTHER_SCRIPTS | {ENGLISH}))
_ANY_SCRIPT = re.compile(
    "[\u0370-\u06ff\u0900-\u097f\u0b80-\u0bff\u1f00-\u1fff]"
)  # any of the above but Latin
_WITHOUT_SPACES = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"
)
_WORD = re.compile(r"(?:[^\W\d_]|[\u0900-\u0903\u093a-\u094f\u0962\u0963])+")
_SAMPLE_CHARACTERS = 1000
_SAMPLE_WORDS = 200
_MIN_VOTES = 3  # with fewer words of a language, a guess is no better than the default
_SHORT = 15  # words; in a shorter text, two votes must do

_WORD_VOTES: dict[str, tuple[str, ...]] = {}
for _language, _words in STOP_WORDS.items():
    for _word in _words.split():
        for _form in (_word, _word.capitalize(), _word.upper()):
            if _language not in _WORD_VOTES.get(_form, ()):
                _WORD_VOTES[_form] = (*_WORD_VOTES.get(_form, ()), _language)
_LETTER_VOTES: dict[str, tuple[str, ...]] = {}
for _language, _letters in _LETTERS.items():
    for _letter in _letters:
        _LETTER_VOTES[_letter] = (*_LETTER_VOTES.get(_letter, ()), _language)


def detect_language(text: str, words: Sequence[str] | None = None) -> str:
    """The language whose stemmer fits `text` best. Callers that have split the text already can pass its `words`."""
    languages, sample = _LATIN, ""
    if not text.isascii():
        sample = text[:_SAMPLE_CHARACTERS]
        languages = _languages_of_script(sample)
    if len(languages) == 1:
        return languages[0]
    if words is None:
        words = _WORD.findall(text[: 8 * _SAMPLE_WORDS])
    words = words[:_SAMPLE_WORDS]
    frequent_words = [*filter(_WORD_VOTES.__contains__, words)]
    votes = Counter(itertools.chain.from_iterable(map(_WORD_VOTES.__getitem__, frequent_words)))
    if sample:
        letters = filter(_LETTER_VOTES.__contains__, sample)
        votes.update(itertools.chain.from_iterable(map(_LETTER_VOTES.__getitem__, letters)))
    default = languages[0]
    if not votes or max(votes.values()) <= votes[default]:
        return default
    best = max(languages[1:], key=lambda language: (votes[language], language))
    if votes[best] <= votes[default] or votes[best] < (_MIN_VOTES if len(words) >= _SHORT else 2):
        return default
    return best if _is_clear(best, frequent_words, sample) else default


def _languages_of_script(sample: str) -> tuple[str, ...]:
    """The languages of the script that more than half of the letters have, its default first; the others need no stemmer
    where there are no spaces."""
    has_other_script = _ANY_SCRIPT.search(sample) is not None
    if not has_other_script and _WITHOUT_SPACES.search(sample) is None:
        return _LATIN
    letters = sum(map(str.isalpha, sample))
    if has_other_script:
        for script, languages in _SCRIPTS.values():
            if 2 * len(script.findall(sample)) > letters:
                return languages
    if 2 * len(_WITHOUT_SPACES.findall(sample)) > letters:
        return (ENGLISH,)
    return _LATIN


def _is_clear(language: str, frequent_words: Sequence[str], sample: str) -> bool:
    """Whether two different words or letters speak for the language: a formula has many an `a` and `v`."""
    evidence = {word for word in frequent_words if len(word) > 1 and language in _WORD_VOTES[word]}
    evidence |= {letter for letter in sample if language in _LETTER_VOTES.get(letter, ())}
    return len(evidence) >= 2
