"""Workers in the test's hands, as the tests of the operations have them."""

from tests.operations.conftest import base, docs, hand, second

__all__ = ["base", "docs", "hand", "second"]
