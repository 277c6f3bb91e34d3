"""Other libraries on the tables of a lake: what they commit goes through the lake, or into one of its transactions."""
