"""The cluster for tests of bases in a search engine."""

from tests.search.shared_cluster import opensearch, own_opensearch, shared_cluster

__all__ = ["opensearch", "own_opensearch", "shared_cluster"]
