"""A process that times a peer on request: one JSON object per line in, one out."""

import json
import os
import pathlib
import subprocess
from typing import Dict

from . import PeerError


class Worker:
    """A running worker. Closing it ends the process."""

    def __init__(self, python: pathlib.Path, script: pathlib.Path, environment: Dict[str, str]):
        self._name = script.name
        try:
            self._process = subprocess.Popen(
                [str(python), str(script)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, **environment},
            )
        except OSError as error:
            raise PeerError(f"cannot run {python}: {error.strerror}; give another Python with --python") from error
        self.greeting = self._read()
        """What the worker says about itself when it is ready."""

    def ask(self, **request) -> dict:
        """Sends a request and waits for the answer."""
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # Reading tells what became of the worker.
        return self._read()

    def _read(self) -> dict:
        line = self._process.stdout.readline()
        if not line:
            code = self._process.wait()
            raise PeerError(f"{self._name} ended with exit code {code}: its message is above")
        answer = json.loads(line)
        if "error" in answer:
            raise PeerError(f"{self._name}: {answer['error']}")
        return answer

    def close(self) -> None:
        """The worker ends when its input does."""
        self._process.stdin.close()
        self._process.wait()
