"""Words that nearly every text of a language has, as lexemes. Pure functions.

They are indexed and searched like all others, so that a phrase can contain them; they are only not highlighted.
"""

import functools

from gristmill.search.language_detection import ENGLISH, STOP_WORDS
from gristmill.search.lexer import fold, lexemes

# The lists for language detection leave out words that languages share; these are needed here.
_MORE_WORDS = {
    ENGLISH: (
        "a about all also am an any as at because been but can could did do does each had has he her his how i if in into its "
        "just may me might more most must my no nor on our out over she should so some such than their them then there these "
        "they those too up us very we were what when where who whom whose why will would you your"
    ),
    "german": (
        "am an als aber alle aus bei bin bis da dass du durch er es hat ich ihr in man noch nur oder sie sind so um uns unter "
        "vom vor war was wenn wer wie wir wo zum zur über des einen einem einer"
    ),
    "french": "a à aux c ces d de elle elles en eu il ils je j l la leur lui mais me même n ne ni nos notre on ou où par plus qu s sa se ses si son te tu un y ont été être",
    "spanish": "a al algo ante de donde e ella ellas ellos en entre era esta este estos ha han hay la le les me mi muy ni no nos o os otra para porque qué quien se sin sobre su también te tu un uno ya yo",
    "portuguese": "a as à às até de e ela ele elas eles entre era essa esse esta este eu foi há já me meu minha muito na nas nem no nos nós num ou para quando que quem se sem ser seu sua só tem um",
    "italian": "a ad al alle ai anche c chi ci come da dal dalla dove e ed è era fra gli hanno i in io la le lei loro lui ma mi ne nei nella no noi o se si sono su sua suo sul tra tu un uno voi",
    "dutch": "al als ben dan de die dit doch er ge had heb heeft hem hij hoe hun ik in ja je kan maar me meer men mij na nog nu om omdat onder ons te tot uit uw was wat we wel wie wij wil ze zich zij zo zou",
}
# Chinese and Japanese particles. Their characters are lexemes of their own, in a text of any language.
_CJK_PARTICLES = frozenset(fold("的了是在和与及也就都而着吗呢吧之のにをはがともへや"))


@functools.cache
def stop_lexemes(language: str) -> frozenset[str]:
    """The lexemes of the stop words of a language."""
    words = f"{STOP_WORDS.get(language, '')} {_MORE_WORDS.get(language, '')}"
    return _CJK_PARTICLES | frozenset(lexemes(words, language))
