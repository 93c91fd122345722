"""The worker's side of harness.worker: a process that answers one JSON object per line."""

import json
import os
import sys


def serve(greeting, answer, state=None):
    """Says `greeting`, then answers every line: `answer(request, state)` returns the next state and the answer."""
    # Libraries and compilers write to descriptor 1 as they please; the answers keep a copy of their own.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(value):
        answers.write(json.dumps(value) + "\n")
        answers.flush()

    say({**greeting, "python": sys.version.split()[0]})
    for line in sys.stdin:
        try:
            state, reply = answer(json.loads(line), state)
        except Exception as error:  # whatever it is, the driver has to hear of it
            reply = {"error": f"{type(error).__name__}: {error}"}
        say(reply)
