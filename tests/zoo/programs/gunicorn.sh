#!/usr/bin/env bash
# gunicorn.sh FOLDER - two forked workers answer twenty requests, then end by TERM.
export PYTHONPATH=$1
gunicorn --log-level critical --preload --workers 2 --worker-tmp-dir /dev/shm --bind unix:socket --pid server.pid gunicorn_app:app &
python3 -S - <<'PYTHON'
import os, socket, time

def ask(number):
    for _ in range(400):
        try:
            with socket.socket(socket.AF_UNIX) as one:
                one.connect("socket")
                one.sendall(f"GET /{number} HTTP/1.0\r\n\r\n".encode())
                answer = b""
                while piece := one.recv(4096):
                    answer += piece
                return answer.rpartition(b"\r\n")[2].decode().strip()
        except OSError:
            time.sleep(0.05)
    return "no answer"

for number in range(20):
    print(ask(number))
PYTHON
kill -TERM "$(<server.pid)"
wait
echo "status $?"
