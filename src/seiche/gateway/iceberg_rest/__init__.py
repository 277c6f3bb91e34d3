"""The Iceberg REST catalog protocol: PyIceberg, DuckDB, Spark, Trino and others use the lake as their catalog."""
