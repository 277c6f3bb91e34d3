"""Preparations of changes that need nothing but the manifest: no rows are read, no data files written."""
