"""Where the chunks of a base are indexed: in this database and process, or in a search engine.

port.py               how a base is searched: the port that both implement
embedded.py           the embedded index, the default
engine_search.py      a base in a search engine: the engine proposes chunks, PostgreSQL decides
engine.py             what a search engine must be able to do
engine_indexes.py     the engine of the settings, and its index for each base
opensearch.py         OpenSearch, the one engine (opensearch_http.py, opensearch_queries.py)
tasks.py              changes not yet applied to the engine; pending_put.py: chunks on their way there
text_scores.py        scores of chunks not yet in the engine, and explanations
"""
