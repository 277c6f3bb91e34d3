"""Delete, update and merge, planned by the driver and done by Spark's workers."""
