"""The fixtures of the operations' tests."""

from tests.operations.conftest import base, docs, hand, second

__all__ = ["base", "docs", "hand", "second"]
