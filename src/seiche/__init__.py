"""Seiche: a transactional lakehouse."""
