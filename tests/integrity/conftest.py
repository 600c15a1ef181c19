"""The fixtures of the operations' tests."""

from tests.operations.conftest import base, docs, second_worker, worker

__all__ = ["base", "docs", "second_worker", "worker"]
