#!/bin/sh
# Installs what `make interop` runs: Node 22.20 (Pi needs 22.19 or newer), Pi 1.6.0, Claude Code and Codex, into node_modules
# beside this file, which git ignores. Needs npm; changes nothing outside this folder.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
if ! command -v npm > /dev/null; then
    echo "Error: npm is missing; it comes with Node (any version will do to install)" >&2
    exit 1
fi
npm install --prefix "$here" --no-save --no-package-lock --no-audit --no-fund --loglevel=error \
    node@22.20.0 @earendil-works/pi-coding-agent@1.6.0 \
    @anthropic-ai/claude-code@2.1.332 @openai/codex@0.171.0
"$here/node_modules/.bin/node" --version
"$here/node_modules/.bin/claude" --version
"$here/node_modules/.bin/codex" --version
