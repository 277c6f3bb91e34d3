"""One Lance table: its versions, the operations that make them, and what happens when two writers meet."""
