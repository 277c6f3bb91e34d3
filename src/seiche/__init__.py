"""Seiche: a transactional lakehouse. Any number of tables change in one atomic step, or not at all."""

__version__ = "0.1.0"
