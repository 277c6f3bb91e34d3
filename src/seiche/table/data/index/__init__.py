"""Indices of a table: building segments natively, committing them, and keeping them true while rows move."""
