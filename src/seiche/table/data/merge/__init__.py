"""Merging rows into a table by key: what matches, what becomes of it, and the files that makes."""
