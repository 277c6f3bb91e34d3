"""SQL over the lake: transactions, queries, changes, definitions and upkeep, on Spark.

A statement is taken apart by a small grammar of our own that knows every word of it; queries and expressions inside it
are looked into with sqlglot, and given to Spark as they were written, with nothing but the names of tables replaced.
"""
