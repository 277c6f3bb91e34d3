"""Lance tables that have a name in the lake and are committed to elsewhere."""
