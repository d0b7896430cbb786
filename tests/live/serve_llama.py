"""Serves a GGUF model with llama.cpp's own HTTP server until it is killed; run by the servers' environment.

python serve_llama.py MODEL.gguf PORT ALIAS CONTEXT
"""

import signal
import sys

import xllamacpp


def main(path: str, port: str, alias: str, context: str) -> None:
    """Serve a model."""
    params = xllamacpp.CommonParams()
    params.model.path = path
    params.hostnames = ["127.0.0.1"]
    params.port = int(port)
    params.model_alias = {alias}
    params.n_ctx = int(context)
    params.n_parallel = 1
    server = xllamacpp.Server(params)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    signal.pause()


if __name__ == "__main__":
    main(*sys.argv[1:])
