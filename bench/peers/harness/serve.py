"""The worker's side of harness.worker: answers one JSON object per line."""

import json
import os
import sys


def serve(greeting, answer, state=None):
    """Sends `greeting`, then answers every line. `answer(request, state)` returns state and answer."""
    # Libraries and compilers print to descriptor 1, so answers go to a duplicate of it.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(value):
        answers.write(json.dumps(value) + "\n")
        answers.flush()

    say({**greeting, "python": sys.version.split()[0]})
    for line in sys.stdin:
        try:
            state, reply = answer(json.loads(line), state)
        except Exception as error:  # Any failure must reach the driver.
            reply = {"error": f"{type(error).__name__}: {error}"}
        say(reply)
