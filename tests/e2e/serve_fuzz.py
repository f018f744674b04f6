#!/usr/bin/env python3
"""serve_fuzz.py - hostile clients of gpushim serve, for the end-to-end tests.

  serve_fuzz.py HOST:PORT PID SEED COUNT   COUNT random requests over sockets, the same ones for a seed: good
                                           ones, changed ones, and noise. Each tenth is a good one that must be
                                           answered
  serve_fuzz.py --slow HOST:PORT COUNT     COUNT clients that send a byte a second; they must be ended, and
                                           others answered meanwhile

Ends with 0, or 1 if something that must be answered is not.
"""
import random
import socket
import sys
import time

GOOD = [b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", b"HEAD / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: application/openmetrics-text\r\n\r\n"]
PIECES = [b"GET ", b"POST ", b"HTTP/1.1", b"\r\n", b"\n", b"\r", b": ", b"Host", b"Content-Length: ", b"18446744073709551615",
          b"-1", b"Transfer-Encoding: chunked\r\n", b"Expect: 100-continue\r\n", b"0\r\n\r\n", b"ffffffffffffffff\r\n",
          b"%00", b"%", b"%zz", b"?pid=", b"&name=", b"//", b"/../", b"*", b"\0", b"\xff\xfe", b"A" * 5000,
          b"Connection: keep-alive\r\n", b"Upgrade: websocket\r\n", b"Accept: ;;;q=,,q=1e999,\r\n",
          b"X-Prometheus-Scrape-Timeout-Seconds: nan\r\n", b"Authorization: Bearer \r\n", b"Range: bytes=0-\r\n"]


def connect(where, seconds=10):
    made = socket.create_connection(where, seconds)
    made.settimeout(seconds)
    return made


def answer(where, request):
    """The first line of the answer."""
    with connect(where, 30) as client:
        client.sendall(request)
        text = b""
        while b"\r\n" not in text:
            more = client.recv(4096)
            if not more:
                break
            text += more
        return text.split(b"\r\n")[0]


def changed(made, request):
    """A request with some bytes removed, doubled, replaced, or pieces put in."""
    data = bytearray(request)
    for _ in range(made.randrange(1, 6)):
        at = made.randrange(len(data) + 1)
        way = made.randrange(4)
        if way == 0:
            data[at:at + made.randrange(1, 12)] = b""
        elif way == 1:
            data[at:at] = made.choice(PIECES)
        elif way == 2:
            data[at:at] = data[at:at + made.randrange(1, 40)]
        elif at < len(data):
            data[at] = made.randrange(256)
    return bytes(data)


def hostile(made, pid):
    paths = [b"/", b"/metrics", b"/process?pid=%d" % pid, b"/debug/pprof/heap?pid=%d" % pid, b"/debug/pprof/allocs?name=x",
             b"/process?pid=1&pid=2", b"/process?pid=" + b"9" * made.randrange(1, 40), b"/healthz?" + b"&" * made.randrange(500)]
    request = b"GET " + made.choice(paths) + b" HTTP/1.1\r\nHost: localhost\r\n" + made.choice([b"", b"Connection: close\r\n"]) + b"\r\n"
    way = made.randrange(6)
    if way == 0:
        return made.randbytes(made.randrange(1, 2000))
    if way == 1:
        return b"".join(made.choice(PIECES) for _ in range(made.randrange(1, 60)))
    if way == 2:
        return request * made.randrange(1, 20)
    if way == 3:
        return request[:made.randrange(len(request))]
    return changed(made, request)


def send(where, made, data):
    """Sends in pieces, reads a little or nothing, and goes away in one way or another."""
    client = connect(where)
    try:
        at = 0
        while at < len(data):
            size = made.choice([1, 7, 100, 5000, len(data)])
            client.sendall(data[at:at + size])
            at += size
        way = made.randrange(4)
        if way == 0:
            client.shutdown(socket.SHUT_WR)
        if way < 2:
            client.settimeout(made.choice([0.001, 0.01, 0.05]))
            client.recv(made.choice([1, 100, 65536]))
        if way == 3:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # a reset
    except OSError:
        pass
    finally:
        client.close()


def fuzz(where, pid, seed, count):
    made = random.Random(seed)
    for number in range(count):
        if number % 10 == 0:
            # Of a server that is full, the answer says so.
            said = answer(where, made.choice(GOOD))
            if not said.startswith((b"HTTP/1.1 200", b"HTTP/1.1 503")):
                sys.exit("request %d: %r" % (number, said))
        else:
            send(where, made, hostile(made, pid))


def slow(where, count):
    clients = [connect(where) for _ in range(count)]
    began = time.monotonic()
    while clients and time.monotonic() - began < 60:
        for client in list(clients):
            try:
                client.sendall(b"G")
                client.settimeout(0.001)
                if client.recv(1) == b"":
                    raise OSError
            except TimeoutError:
                pass
            except OSError:
                client.close()
                clients.remove(client)
        if not answer(where, GOOD[0]).startswith(b"HTTP/1.1 200"):
            sys.exit("no answer beside slow clients")
        time.sleep(1)
    if clients:
        sys.exit("%d slow clients are still connected" % len(clients))


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "--slow"]
    host, port = words[0].rsplit(":", 1)
    if "--slow" in sys.argv:
        slow((host, int(port)), int(words[1]))
    else:
        fuzz((host, int(port)), *map(int, words[1:]))
