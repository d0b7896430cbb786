"""Writes an export as one HTML page: the whole tree, with nothing to fetch and nothing that content could run.

    page.py      the tree as sections, entries and the rows of the picture
    content.py   what an entry says, block by block
    markup.py    texts, Markdown and code as safe HTML
    page.html.j2, page.css, page.js

The page is complete without its script: every branch can be read, in order. The script adds the picture of the tree,
branches switched in place, search and keys. Invariants: the only script and style are ours, allowed by their hashes in
the page's content security policy; all text goes through the template engine's escaping or Markdown without raw HTML;
nothing is loaded from anywhere; no work, here or in the page, recurses by depth of the tree.
"""

from __future__ import annotations

from pi_sessions.formats.html.page import export_lines

__all__ = ["export_lines"]
