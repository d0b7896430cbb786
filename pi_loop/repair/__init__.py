"""The steps that make a request sendable, one idea per module; `pi_loop.request` puts them in order.

All are pure, work on decoded JSON in Pi's spelling, and change nothing they are given.
"""
