"""Where the command gpushim is."""
import shutil
import sysconfig


def find():
    """The path of the command: of the environment that this module is installed in, else on PATH. None: neither."""
    return shutil.which("gpushim", path=sysconfig.get_path("scripts")) or shutil.which("gpushim")


def missing():
    """What to say where there is none."""
    return "no command gpushim in %s or on PATH" % sysconfig.get_path("scripts")
