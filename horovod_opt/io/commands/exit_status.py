"""How commands end that find something wrong with what they were given, or with the data."""

from __future__ import annotations

import sys
from collections.abc import Callable


def exit_status(name: str, command: Callable[[], int]) -> int:
    """What `command` returns. After a line on stderr that begins with the command's `name`: 2 for
    arguments that cannot be used, 1 for data that cannot."""
    from horovod_opt.io.errors import DataError, InputError

    try:
        return command()
    except (DataError, InputError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 2 if isinstance(error, InputError) else 1
