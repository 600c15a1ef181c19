import pytest

from gristmill.search.language_detection import detect_language


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
