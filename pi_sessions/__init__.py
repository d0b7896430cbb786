"""Conversations with coding agents as append-only trees in one SQLite file."""
