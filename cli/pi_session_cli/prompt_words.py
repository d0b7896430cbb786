"""What `run` is asked: words, standard input and files, put together as one prompt with its pictures.

Source: Pi 1.6.0, file arguments.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from pi_loop.tools.images import LARGEST_IMAGE, SNIFFED, image_block, image_type
from pi_sessions.errors import CannotError, UsageError

if TYPE_CHECKING:
    from pi_session_cli.invocation import Invocation
    from pi_sessions.messages import ImageContent

# More text than any model's context holds.
LARGEST_FILE = 10_000_000


def read_prompt(ctx: Invocation, words: tuple[str, ...]) -> tuple[str, list[ImageContent]]:
    """Return the prompt's text and pictures.

    Args:
        words: As typed: `@FILE` stands for a file, `-` for standard input, which also counts when there is no word
            and it is no terminal.

    Raises:
        UsageError: there is nothing to ask.
        CannotError: a file cannot be read.
    """
    if not words and not ctx.stdin.isatty():
        words = ("-",)
    files: list[str] = []
    said: list[str] = []
    pictures: list[ImageContent] = []
    for word in words:
        if word == "-":
            said.append(ctx.stdin.read().removesuffix("\n"))
        elif word.startswith("@") and len(word) > 1 and not any(char.isspace() for char in word):
            add_file(os.path.join(ctx.place, os.path.expanduser(word[1:])), files, pictures)
        else:
            said.append(word)
    text = "".join(files) + " ".join(said)
    text = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if not text.strip() and not pictures:
        raise UsageError("There is nothing to ask", hint="pi-session run 'a question', or text on standard input")
    return text, pictures


def add_file(path: str, texts: list[str], pictures: list[ImageContent]) -> None:
    """Add a file to a prompt: a picture as one, everything else as text under its name.

    Raises:
        CannotError: it cannot be read, is a device or a pipe, or too large to send.
    """
    try:
        # Opening a pipe must not wait for somebody to write to it.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                raise CannotError(f"{path} is not a regular file", hint="- takes the prompt from standard input")
            raw = file.read(LARGEST_FILE + 1)
            size = max(len(raw), os.fstat(file.fileno()).st_size)
    except OSError as error:
        hint = "a word that begins with @ is a file; quote it with other words to mean text"
        raise CannotError(f"Cannot read {path}: {error.strerror}", hint=hint) from error
    kind = image_type(raw[:SNIFFED])
    if kind is None:
        if size > LARGEST_FILE:
            raise CannotError(
                f"The file {path} is too large to send ({size:,} bytes)",
                hint=f"send a part of at most {LARGEST_FILE:,} bytes, or let the model read it with its tools",
            )
        content = raw.decode("utf-8-sig", "replace")
        texts.append(f'<file name="{path}">\n{content}\n</file>\n')
        return
    if size > LARGEST_IMAGE:
        raise CannotError(f"The picture {path} is too large to send ({size:,} bytes)", hint="scale it down")
    texts.append(f'<file name="{path}"></file>\n')
    pictures.append(image_block(raw, kind))
