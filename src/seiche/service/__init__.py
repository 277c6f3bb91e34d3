"""Transactions as a service: begin, prepare, commit and abort for clients that do not write to storage themselves.

The service is optional and can be replaced at any time: what happened is told by the lake's tree. Its own SQL store
holds only what is not decided yet.
"""
