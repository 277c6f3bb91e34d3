"""Compaction and reordering: the same rows in other fragments."""
