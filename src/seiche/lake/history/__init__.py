"""The past of a lake: what happened, how versions differ, names for them, and going back."""
