"""The register of embedders."""

from pathlib import Path
from typing import Any

import pytest

from gristmill.embedding import Embedders, LocalEmbedder, OpenAIEmbedder
from gristmill.embedding.language_codes import LANGUAGES, language_names
from gristmill.embedding.local_models import LOCAL_MODELS
from gristmill.errors import Invalid, SetupError
from gristmill.settings import EmbedderSettings, Settings
from tests.embedding.hashed import HashedEmbedder

OLLAMA = EmbedderSettings.model_validate(
    {"url": "http://localhost:11434/v1", "model": "nomic-embed-text", "dimensions": 768}
)


def settings(tmp_path: Path, **overrides: Any) -> Settings:
    return Settings(data_dir=tmp_path, **overrides)


async def test_the_built_in_embedder_is_the_default(tmp_path: Path) -> None:
    embedders = Embedders(settings(tmp_path), tmp_path)
    assert isinstance(embedders.default, LocalEmbedder)
    assert embedders.names() == ["granite-30m-en", "use-multilingual"]
    await embedders.close()


async def test_each_embedder_is_made_once(tmp_path: Path) -> None:
    hashed = HashedEmbedder()
    embedders = Embedders(
        settings(tmp_path, embedders={"ollama": OLLAMA}, embedder="hashed"),
        tmp_path,
        extra={"hashed": hashed},
    )
    assert embedders.names() == ["granite-30m-en", "hashed", "ollama", "use-multilingual"]
    assert isinstance(embedders.get("ollama"), OpenAIEmbedder)
    assert all(embedders.get(name) is embedders.get(name) for name in embedders.names())
    assert all(embedders.get(name).name == name for name in embedders.names())
    assert embedders.default is hashed
    await embedders.close()


async def test_an_unknown_name_is_answered_with_the_known_ones(tmp_path: Path) -> None:
    embedders = Embedders(settings(tmp_path, embedders={"ollama": OLLAMA}), tmp_path)
    with pytest.raises(Invalid, match="granite-30m-en, ollama, use-multilingual") as error:
        embedders.get("granit")
    assert error.value.code == "unknown_embedder"
    await embedders.close()


def test_an_unknown_default_is_a_mistake_in_the_settings(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="Available: granite-30m-en"):
        Embedders(settings(tmp_path, embedder="granit"), tmp_path)


def test_the_built_in_name_cannot_be_given_to_an_endpoint(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="Choose another"):
        Embedders(settings(tmp_path, embedders={"granite-30m-en": OLLAMA}), tmp_path)


@pytest.mark.parametrize(
    ("codes", "chosen"),
    [
        ([], "granite-30m-en"),
        (["en"], "granite-30m-en"),
        (["zh"], "use-multilingual"),
        (["en", "zh-TW"], "use-multilingual"),
        (["vi"], "granite-30m-en"),
        (["vi", "ES"], "use-multilingual"),
    ],
)
async def test_the_languages_of_a_base_choose_its_embedder(
    tmp_path: Path, codes: list[str], chosen: str
) -> None:
    embedders = Embedders(settings(tmp_path), tmp_path)
    assert embedders.for_languages(language_names(codes)).name == chosen
    await embedders.close()


async def test_a_configured_default_is_left_alone_because_it_does_not_say_what_it_knows(
    tmp_path: Path,
) -> None:
    embedders = Embedders(settings(tmp_path, embedders={"ollama": OLLAMA}, embedder="ollama"), tmp_path)
    assert embedders.for_languages(["chinese"]).name == "ollama"
    await embedders.close()


def test_an_unknown_language_is_refused_with_the_known_ones() -> None:
    with pytest.raises(Invalid, match="zh") as error:
        language_names(["en", "xx"])
    assert error.value.code == "unknown_language"


def test_every_language_that_an_embedder_knows_has_a_code() -> None:
    known = {language for model in LOCAL_MODELS for language in model.strengths}
    assert known <= set(LANGUAGES.values())
