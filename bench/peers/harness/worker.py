"""A process that times a peer on request: one JSON object per line in, one per line out."""

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
            why = f"cannot run {python}: {error.strerror}; name another Python with --python"
            raise PeerError(why) from error
        self.greeting = self._read()
        """The worker's first message: versions."""

    def ask(self, **request) -> dict:
        """Sends a request and waits for the answer."""
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # Reading reports how the worker ended.
        return self._read()

    def _read(self) -> dict:
        line = self._process.stdout.readline()
        if not line:
            code = self._process.wait()
            raise PeerError(f"{self._name} ended with exit code {code}: see its message above")
        answer = json.loads(line)
        if "error" in answer:
            raise PeerError(f"{self._name}: {answer['error']}")
        return answer

    def close(self) -> None:
        """Closes the worker's input, which ends it."""
        self._process.stdin.close()
        self._process.wait()
