"""Adding, altering and replacing columns: new files beside the old ones."""
