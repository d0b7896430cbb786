"""What `run` is asked: words, standard input and files, put together as one prompt with its pictures.

What is sent is text: bytes that are no UTF-8 are replaced and counted in a note, and what is mostly such bytes is
refused. Nothing is taken for text silently that looks like the name of a file.

Source: Pi 1.6.0, file arguments. Differs in that a word with spaces in it can name a file.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pi_loop.tools.images import LARGEST_IMAGE, SNIFFED, image_block, image_type
from pi_session_cli.render.safe import one_line
from pi_session_cli.render.screen import count
from pi_sessions.errors import CannotError, UsageError

if TYPE_CHECKING:
    from typing import TextIO

    from pi_session_cli.invocation import Invocation
    from pi_sessions.messages import ImageContent

# More text than any model's context holds.
LARGEST_FILE = 10_000_000
# Text in another encoding has a few bytes that are no UTF-8; in packed or random data more than a third is none.
MOST_STRANGE = 0.2
FEW_STRANGE = 3
# Control characters that are found in text: bell, backspace, tab, line ends, form feed, escape.
_TEXT_CONTROLS = frozenset("\a\b\t\n\v\f\r\x1b")
_STRANGE = {point: None for point in (*range(0x20), 0x7F, *range(0xDC80, 0xDD00)) if chr(point) not in _TEXT_CONTROLS}


@dataclass(slots=True)
class Prompt:
    """What is sent.

    Args:
        text: Files first, then the words.
        pictures: In the order in which they were named.
        notes: What a person would otherwise not see, one sentence each.
    """

    text: str = ""
    pictures: list[ImageContent] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read_prompt(ctx: Invocation, words: tuple[str, ...]) -> Prompt:
    """Return the prompt.

    Args:
        words: As typed: `@FILE` stands for a file, `-` for standard input, which also counts when there is no word
            and it is no terminal.

    Raises:
        UsageError: there is nothing to ask.
        CannotError: a file cannot be read, or what was given is no text.
    """
    if not words and not ctx.stdin.isatty():
        words = ("-",)
    prompt = Prompt()
    files: list[str] = []
    said: list[str] = []
    for word in words:
        if word == "-":
            said.append(text_of(stdin_bytes(ctx.stdin), "Standard input", prompt.notes).removesuffix("\n"))
        elif names_file(ctx, word, prompt.notes):
            add_file(file_path(ctx, word), files, prompt)
        else:
            said.append(text_of(word.encode("utf-8", "surrogateescape"), "A word of the prompt", prompt.notes))
    prompt.text = "".join(files) + " ".join(said)
    if not prompt.text.strip() and not prompt.pictures:
        raise UsageError("There is nothing to ask", hint="pi-session run 'a question', or text on standard input")
    return prompt


def file_path(ctx: Invocation, word: str) -> str:
    """Return the path that a word beginning with @ names."""
    return os.path.join(ctx.place, os.path.expanduser(word[1:]))


def names_file(ctx: Invocation, word: str, notes: list[str]) -> bool:
    """Whether a word is a file and no text.

    Without white space after its @ it always is. With white space, it is when there is such a file, or when it can
    only be meant as one: it begins as a path does, or the folder it names is there. Other words are text, and where
    one might have meant a file a note says so.
    """
    if not word.startswith("@") or len(word) == 1:
        return False
    if not any(char.isspace() for char in word):
        return True
    path = file_path(ctx, word)
    if os.path.lexists(path):
        return True
    if "\n" in word:
        return False
    folder = os.path.dirname(word[1:])
    if word.startswith(("@/", "@./", "@../", "@~/")) or (folder and os.path.isdir(os.path.dirname(path))):
        return True
    notes.append(f'There is no file "{one_line(word[1:], 80)}": the words are sent as text')
    return False


def add_file(path: str, texts: list[str], prompt: Prompt) -> None:
    """Add a file to a prompt: a picture as one, everything else as text under its name.

    Raises:
        CannotError: it cannot be read, is a device or a pipe, too large to send, or neither text nor a picture.
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
        texts.append(f'<file name="{path}">\n{text_of(raw, path, prompt.notes)}\n</file>\n')
        return
    if size > LARGEST_IMAGE:
        raise CannotError(f"The picture {path} is too large to send ({size:,} bytes)", hint="scale it down")
    texts.append(f'<file name="{path}"></file>\n')
    prompt.pictures.append(image_block(raw, kind))


def stdin_bytes(stdin: TextIO) -> bytes:
    """Return all of standard input, before anything has been decoded."""
    return stdin.buffer.read() if hasattr(stdin, "buffer") else stdin.read().encode("utf-8", "surrogateescape")


def text_of(raw: bytes, name: str, notes: list[str]) -> str:
    """Return bytes as text, without the mark that UTF-8 may begin with.

    Args:
        name: Where they come from, for people.
        notes: Gets a sentence when bytes had to be replaced.

    Raises:
        CannotError: they are no text.
    """
    try:
        text = raw.decode("utf-8-sig")
        invalid = 0
    except UnicodeDecodeError:
        text = raw.decode("utf-8-sig", "surrogateescape")
        invalid = sum("\udc80" <= char <= "\udcff" for char in text)
    strange = len(text) - len(text.translate(_STRANGE))
    if "\0" in text or strange > max(FEW_STRANGE, MOST_STRANGE * len(text)):
        raise CannotError(
            f"{name} is no text in UTF-8 ({count(len(raw), 'byte')})",
            hint="only text and pictures (PNG, JPEG, GIF, WebP; as @FILE) can be sent: turn it into text first "
            "(iconv, pdftotext, ...), or name its path in the prompt and let the model look with its tools",
        )
    if invalid:
        were = "byte that is no UTF-8 was" if invalid == 1 else "bytes that are no UTF-8 were"
        notes.append(f"{name}: {invalid:,} {were} replaced by U+FFFD")
        text = raw.decode("utf-8-sig", "replace")
    return text
