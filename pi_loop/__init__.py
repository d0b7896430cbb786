"""The agent loop: messages in, events out."""
