"""The data plane: everything that pylance does for us. The only place in `table` that knows it."""
