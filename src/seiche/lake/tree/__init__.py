"""The tree under the lake: an immutable map of keys to rows whose root file is the lake's version."""
