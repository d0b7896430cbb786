"""The tools of a coding agent, with Pi's names and argument shapes; `coding` makes them.

Empty, so that the process that walks folders starts without the rest.
"""
