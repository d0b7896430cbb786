"""Plays wire recordings through the client and shows the final message of each.

    python -m tests.conformance.wire [DIR ...] [--json FILE] [--full]

Each recording is served from a local socket with the cuts of its recording, in one piece, and cut inside characters,
inside field names, between CR and LF, after line ends and inside escapes; small ones also byte by byte (`--full`: all).
One line of JSON per recording goes to stdout. Exit 1 if a cut changed a message, 2 if there is nothing to play.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import anyio

from pi_sessions.messages import JsonObject
from tests.conformance.wire_playback import Recording, cut_plans, find_recordings, play, playback

BUNDLED = Path(__file__).resolve().parents[2] / "fixtures" / "wire"
SMALL = 700
IDLE_LIMIT_S = 10.0


async def play_all(
    recordings: list[Recording], *, every_byte_up_to: int, all_up_to: int | None = None
) -> list[JsonObject]:
    """Play recordings with all their cuts.

    Args:
        every_byte_up_to: Largest recording, in bytes, that is also sent byte by byte.
        all_up_to: Largest recording, in bytes, that is cut in every way; None for any.

    Returns:
        For each: name, protocol, number of cuts, message, and under `different` the messages that differ, by cut.
    """
    results: list[JsonObject] = []
    async with playback() as server:
        for recording in recordings:
            plans = cut_plans(recording, every_byte_up_to=every_byte_up_to, all_up_to=all_up_to)
            messages = {
                name: await play(server, recording, pieces, idle_limit_s=IDLE_LIMIT_S) for name, pieces in plans.items()
            }
            message = messages["as recorded"]
            different = {name: other for name, other in messages.items() if other != message}
            results.append(
                {
                    "recording": recording.name,
                    "protocol": recording.api,
                    "cuts": len(messages),
                    "same": not different,
                    "message": message,
                    **({"different": different} if different else {}),
                }
            )
    return results


def main(arguments: list[str]) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.wire", description=__doc__.partition("\n")[0])
    parser.add_argument("folders", nargs="*", type=Path, metavar="DIR", default=[BUNDLED])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all results to a file")
    parser.add_argument("--full", action="store_true", help="send every recording also byte by byte")
    options = parser.parse_args(arguments)
    recordings = find_recordings(options.folders)
    if not recordings:
        print("there are no .http or .sse files here", file=sys.stderr)
        return 2
    started = time.monotonic()
    limit = max(len(recording.raw) for recording in recordings) if options.full else SMALL

    async def run() -> list[JsonObject]:
        return await play_all(recordings, every_byte_up_to=limit)

    results = anyio.run(run)
    for result in results:
        print(json.dumps(result, ensure_ascii=False))
    if options.json is not None:
        text = json.dumps({"recordings": results}, ensure_ascii=False, indent=1)
        options.json.write_text(text + "\n", encoding="utf-8")
    changed = [result["recording"] for result in results if not result["same"]]
    played = sum(result["cuts"] for result in results)
    print(
        f"{len(results)} recordings, {played} playbacks, {len(changed)} changed by cuts, "
        f"{time.monotonic() - started:.1f} s",
        file=sys.stderr,
    )
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
