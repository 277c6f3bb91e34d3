"""Pipelines: build many tables, check them together, publish them at once or not at all."""

from seiche.spark.pipeline.decorators import Pipeline

__all__ = ["Pipeline"]
