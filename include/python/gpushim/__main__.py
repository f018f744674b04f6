"""python -m gpushim: the command of the environment that this module is installed in."""
import os
import sys

from gpushim import _command


def main():
    """Takes the place of the interpreter; ends with 127 where the command is missing."""
    command = _command.find()
    if not command:
        print(f"python -m gpushim: {_command.missing()}", file=sys.stderr)
        sys.exit(127)
    os.execv(command, ["gpushim", *sys.argv[1:]])


if __name__ == "__main__":
    main()
