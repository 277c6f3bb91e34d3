"""Keeping a lake for years: giving up old versions, clearing away what nobody needs, finding and mending damage."""
