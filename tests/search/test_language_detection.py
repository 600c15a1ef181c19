import pytest

from gristmill.search.language_detection import STOP_WORDS, detect_language
from gristmill.search.lexer import lex, split_words


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("The miller sharpens the stones, and it is done by hand.", "english"),
        ("Der Müller schärft die Steine, und das ist nicht mit der Maschine zu machen.", "german"),
        ("Le meunier a les pierres dans le moulin, et il est une fois pour nous.", "french"),
        ("El molinero no está con los otros, pero la piedra es para una casa.", "spanish"),
        ("Мельник точит камни каждую весну.", "russian"),
        ("磨坊主每年春天都会打磨石头。", "english"),
        ("def main(): return 0", "english"),
        ("", "english"),
    ],
)
def test_the_language_is_detected_by_script_and_small_words(text: str, language: str) -> None:
    assert detect_language(text) == language


SENTENCES = {
    "english": "The miller sharpens the stones, and it is done by hand in the spring.",
    "german": "Der Müller schärft die Steine mit der Hand, und das ist auch im Winter so.",
    "french": "Le meunier taille les pierres dans le moulin, et il est aidé par une voisine.",
    "spanish": "El molinero afila las piedras del molino con una herramienta que es de su padre.",
    "portuguese": "O moleiro afia as pedras do moinho com uma ferramenta que não é do seu pai.",
    "italian": "Il mugnaio affila le pietre del mulino con una mano, che non è più della sua.",
    "dutch": "De molenaar scherpt de stenen met het gereedschap dat ook door zijn vader wordt gebruikt.",
    "swedish": "Mjölnaren vässar stenarna för hand och det är inte ett lätt arbete på våren.",
    "danish": "Mølleren sliber stenene af med hånden, og det blev ikke et let arbejde for ham.",
    "norwegian": "Mølleren sliper steinene av med hånden, og det ble ikke et lett arbeid for ham.",
    "finnish": "Mylläri teroittaa kivet käsin, mutta se on työ, joka ei ole helppo ja vie aikaa.",
    "hungarian": "A molnár élezi a köveket, és ez nem olyan munka, hogy csak egy ember végezze el.",
    "turkish": "Değirmenci taşları bilemek için bir alet kullanır ve bu çok daha kolay olan yoldur.",
    "romanian": "Morarul ascute pietrele cu mâna și este o muncă pe care nu o face singur în sat.",
    "polish": "Młynarz ostrzy kamienie ręcznie i nie jest to praca, która się szybko kończy.",
    "czech": "Mlynář brousí kameny ručně a je to práce, která se nedělá rychle, ale pro radost při jaru.",
    "catalan": "El moliner esmola les pedres amb una eina que és del seu pare, però no és més ràpid.",
    "indonesian": "Penggiling itu mengasah batu dengan tangan dan tidak ada yang bisa membantu dalam musim ini.",
    "vietnamese": "Người thợ xay đã mài những hòn đá này bằng tay và không có ai giúp ông trong mùa xuân.",
    "estonian": "Mölder teritab kive käsitsi ja see on töö, mis ei ole kerge, kuid ta on harjunud.",
    "lithuanian": "Malūnininkas galanda akmenis rankomis ir tai yra darbas, kad būtų taip kaip nuo seno.",
    "basque": "Errotariak harriak eskuz zorrozten ditu eta hau ez da lan erraza izan, baina egin zuen.",
    "irish": "Bhí an muilleoir ag obair ar na clocha agus ní raibh sé leis féin, ach mar sin atá seo.",
    "russian": "Мельник точит камни вручную, и это не так легко, как он думал, но для него привычно.",
    "ukrainian": "Мельник точить каміння вручну, і це не є легкою роботою, яку він робив також навесні.",
    "bulgarian": "Мелничарят остри камъните на ръка и това не е лесна работа, която се прави през пролетта.",
    "serbian": "Млинар оштри камење руком и то није лак посао, који је он радио са својим оцем.",
    "greek": "Ο μυλωνάς ακονίζει τις πέτρες με το χέρι.",
    "arabic": "الطحان يشحذ الحجارة في الربيع كل عام من هذا المكان.",
    "persian": "آسیابان سنگ‌ها را با دست تیز می کند و این کار در بهار است که برای او آسان شد.",
    "urdu": "چکی والا پتھر کو ہاتھ سے تیز کرتا ہے اور یہ کام بہار میں ایک دن کا ہے۔",
    "hindi": "चक्की वाला पत्थर को हाथ से तेज करता है और यह काम वसंत में एक दिन का है।",
    "nepali": "यो ढुङ्गा हातले तिखार्ने काम हो र यस गाउँको लागि धेरै पुरानो भएको छ।",
    "hebrew": "הטוחן משחיז את האבנים של הטחנה ביד, כי זה לא קשה יותר, והוא עובד גם בלילה.",
    "yiddish": "דער מילנער שארפט די שטיינער מיט די הענט, און דאס איז ניט גרינג פאר אים.",
    "armenian": "Ջրաղացպանը սրում է քարերը ձեռքով։",
    "tamil": "ஆலைக்காரர் கற்களைக் கையால் கூர்மையாக்குகிறார்.",
}


@pytest.mark.parametrize("language", SENTENCES)
def test_every_language_of_the_lexer_is_recognised(language: str) -> None:
    sentence = SENTENCES[language]
    assert detect_language(sentence) == language
    assert detect_language(sentence, split_words(sentence)) == language
    assert detect_language(" ".join([sentence] * 40)) == language


def test_a_sentence_of_every_language_is_tried() -> None:
    assert {*STOP_WORDS, "greek", "tamil", "armenian"} == {*SENTENCES}
    for language in SENTENCES:
        assert [*lex("mill", language)]


@pytest.mark.parametrize(
    ("question", "language"),
    [
        ("Ai là người đứng đầu?", "vietnamese"),
        ("Wie groß ist die Mühle?", "german"),
        ("¿Cuál es la capital?", "spanish"),
        ("Cine este autorul cărții?", "romanian"),
        ("Değirmen nerede ve hangi yılda kuruldu?", "turkish"),
        ("who owns the mill", "english"),
        ("v = a s, a = b o z", "english"),
        ("Nguyễn, Trần and Phạm are the names of the authors of this paper", "english"),
    ],
)
def test_questions_are_recognised_by_few_words(question: str, language: str) -> None:
    assert detect_language(question) == language
