"""python -m gpushim: the command of the environment that this module is installed in."""
import os
import shutil
import sys
import sysconfig


def main():
    """Takes the place of the interpreter; ends with 127 where the command is missing."""
    folder = sysconfig.get_path("scripts")
    command = shutil.which("gpushim", path=folder) or shutil.which("gpushim")
    if not command:
        print(f"python -m gpushim: no command gpushim in {folder} or on PATH", file=sys.stderr)
        sys.exit(127)
    os.execv(command, ["gpushim", *sys.argv[1:]])


if __name__ == "__main__":
    main()
