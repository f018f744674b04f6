"""conftest.py - leaves a line each time that pytest reads it."""
import os

with open(os.environ.get("CONFTEST_LOG", os.devnull), "a") as log:
    log.write("%s read\n" % os.environ.get("PYTEST_XDIST_WORKER", "main"))
