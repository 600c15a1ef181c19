"""Notion: pages, those of databases included."""
