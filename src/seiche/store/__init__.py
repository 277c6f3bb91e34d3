"""Storage: bytes under names, with one atomic verb that everything else rests on."""
