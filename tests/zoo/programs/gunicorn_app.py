"""gunicorn_app.py - an application of gunicorn: each forked worker has a context of its own."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "common"))
import driver  # noqa: E402 # pylint: disable=wrong-import-position

_started = []


def app(environment, start_response):
    if not _started:
        driver.start()
        _started.append(True)
    data = bytes(range(256)) * 40
    text = f"{environment['PATH_INFO']} {driver.sent(data) == data}\n".encode()
    start_response("200 OK", [("Content-Length", str(len(text)))])
    return [text]
