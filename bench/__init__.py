"""Measurements, side by side in one run, as ratios. Never a test: nothing here fails because a machine is slow."""
