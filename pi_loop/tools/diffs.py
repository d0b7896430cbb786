"""What an edit changed, for people (numbered lines) and for programs (a unified patch). Pure.

Only what lies between the first and the last difference is compared, so the cost follows the change, not the file.

Source: Pi 1.6.0, tool `edit`: `details`.
"""

import difflib
from collections.abc import Iterator

from pi_sessions.messages import JsonObject

CONTEXT = 4
# Past this many lines on one side, a change is shown as one block that goes and one that comes.
_MOST_COMPARED = 3000
Block = tuple[str, int, int, int, int]


def describe_change(path: str, old: str, new: str) -> JsonObject:
    """Return `diff`, `patch` and `firstChangedLine` of a change.

    Args:
        path: The file's name in the patch.
        old, new: Texts with line feeds; they differ.
    """
    before, after = old.split("\n"), new.split("\n")
    groups = list(_groups(before, after))
    first = next(start + 1 for group in groups for tag, _, _, start, _ in group if tag != "equal")
    return {
        "diff": "\n".join(_numbered(groups, before, after)),
        "patch": "\n".join(_patch(path, groups, before, after)) + "\n",
        "firstChangedLine": first,
    }


def _groups(before: list[str], after: list[str]) -> Iterator[list[Block]]:
    """Yield runs of blocks (tag, old range, new range) with context around them."""
    shared = min(len(before), len(after))
    head = next((place for place in range(shared) if before[place] != after[place]), shared)
    tail = next((place for place in range(shared - head) if before[-1 - place] != after[-1 - place]), shared - head)
    middle = before[head : len(before) - tail], after[head : len(after) - tail]
    codes: list[Block] = [("equal", 0, head, 0, head)]
    if max(map(len, middle)) > _MOST_COMPARED:
        codes.append(("replace", head, head + len(middle[0]), head, head + len(middle[1])))
    else:
        matcher = difflib.SequenceMatcher(None, *middle, autojunk=False)
        codes += [(tag, a + head, b + head, c + head, d + head) for tag, a, b, c, d in matcher.get_opcodes()]
    codes.append(("equal", len(before) - tail, len(before), len(after) - tail, len(after)))
    group: list[Block] = []
    codes = [code for code in codes if code[1] != code[2] or code[3] != code[4]]
    for place, (tag, a, b, c, d) in enumerate(codes):
        if tag != "equal":
            group.append((tag, a, b, c, d))
            continue
        if place and (b - a <= 2 * CONTEXT) and place + 1 < len(codes):
            group.append((tag, a, b, c, d))
            continue
        if place:
            kept = min(CONTEXT, b - a)
            yield [*group, ("equal", a, a + kept, c, c + kept)]
        kept = min(CONTEXT, b - a)
        group = [("equal", b - kept, b, d - kept, d)]
    if any(code[0] != "equal" for code in group):
        yield group


def _numbered(groups: list[list[Block]], before: list[str], after: list[str]) -> Iterator[str]:
    digits = len(str(max(len(before), len(after))))
    position = 0
    for group in groups:
        if group[0][1] > position:
            yield f" {'':{digits}} ..."
        for tag, a, b, c, d in group:
            if tag == "equal":
                yield from (f" {number + 1:>{digits}} {before[number]}" for number in range(a, b))
                continue
            yield from (f"-{number + 1:>{digits}} {before[number]}" for number in range(a, b))
            yield from (f"+{number + 1:>{digits}} {after[number]}" for number in range(c, d))
        position = group[-1][2]
    if position < len(before):
        yield f" {'':{digits}} ..."


def _patch(path: str, groups: list[list[Block]], before: list[str], after: list[str]) -> Iterator[str]:
    yield f"--- {path}"
    yield f"+++ {path}"
    for group in groups:
        a, b, c, d = group[0][1], group[-1][2], group[0][3], group[-1][4]
        yield f"@@ -{a + 1},{b - a} +{c + 1},{d - c} @@"
        for tag, start, end, new_start, new_end in group:
            if tag == "equal":
                yield from (f" {line}" for line in before[start:end])
                continue
            yield from (f"-{line}" for line in before[start:end])
            yield from (f"+{line}" for line in after[new_start:new_end])
