"""The manual workers of the operations' tests, and the endpoint of the embedders' tests."""

from tests.embedding.conftest import endpoint
from tests.operations.conftest import base, docs, second_worker, worker

__all__ = ["base", "docs", "endpoint", "second_worker", "worker"]
