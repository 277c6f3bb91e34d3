"""The service's own memory: transactions that are not decided yet, in SQL."""
