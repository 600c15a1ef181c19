"""Workers in the test's hands, as the tests of the operations have them; an endpoint, as those of the embedders."""

from tests.embedding.conftest import endpoint
from tests.operations.conftest import base, docs, hand, second

__all__ = ["base", "docs", "endpoint", "hand", "second"]
