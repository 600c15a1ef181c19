"""The cluster for tests of the distributed index."""

from tests.search.opensearch_cluster import opensearch, own_opensearch, shared_cluster

__all__ = ["opensearch", "own_opensearch", "shared_cluster"]
