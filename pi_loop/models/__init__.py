"""Models: which there are, what they can do, where they are asked and with which key."""
