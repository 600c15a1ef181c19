"""The cluster for tests of the distributed index."""

from tests.search.opensearch_cluster import opensearch as opensearch
