"""Crawl web sites: from a start page, by links and sitemaps.

crawler.py      one crawl, in slices: fetch, decide, file, until no address waits
decide.py       what a response means for an address
page_filer.py   write a batch of pages, and remove those that are gone
host_turns.py   when the next request to a host may be sent, across all workers
"""
