"""The bytes of a Lance table: what every file of one means, and how to write one that others read."""
