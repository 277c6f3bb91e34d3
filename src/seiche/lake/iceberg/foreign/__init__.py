"""Iceberg tables that have a name in the lake and are decided about elsewhere."""
