"""What the client scripts share: how one attempt ends, and the JSON line at the end of a client."""

import json
from collections.abc import Callable

import bert_pytorch


def attempt(work: Callable[[], object]) -> object:
    """The value of `work()`, or the names of the exception's classes and its message."""
    try:
        return work()
    except (Exception, SystemExit) as error:
        return {"raised": [kind.__name__ for kind in type(error).__mro__], "message": str(error)}


def finish(seen: dict[str, object]) -> None:
    """Print what was seen, as the last line on stdout."""
    print("\n" + json.dumps(seen | {"library": bert_pytorch.__file__}), flush=True)
