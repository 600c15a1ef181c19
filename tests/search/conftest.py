"""The cluster for tests of bases in a search engine, and the endpoint of the embedders' tests."""

from tests.embedding.conftest import endpoint
from tests.search.shared_cluster import opensearch, own_opensearch, shared_cluster

__all__ = ["endpoint", "opensearch", "own_opensearch", "shared_cluster"]
