"""Strict readers of request bodies, one per protocol, written from the providers' published rules.

Each `check_*` returns the rules a body breaks, in words; an empty list means that the provider would take it. They
know nothing of how bodies are built. `may_replay` says whether the receiving model made a signature.
"""
