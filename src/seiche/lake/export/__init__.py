"""Copies of a lake at one version: whole, or sharing files with the lake that they were made from."""
