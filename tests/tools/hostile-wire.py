#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Hostile packets for a device's UDP port: hostile-wire.py [--seed N] [--count N] ADDRESS. From a host without a device of its own."""
import argparse, random, socket, struct, sys, time

ap = argparse.ArgumentParser()
ap.add_argument("--seed", type=int, default=1)
ap.add_argument("--count", type=int, default=20000)
ap.add_argument("address")
args = ap.parse_args()
R = random.Random(args.seed)
PORT = 61791
fam = socket.AF_INET6 if ":" in args.address else socket.AF_INET
s = socket.socket(fam, socket.SOCK_DGRAM)
s.bind(("::" if fam == socket.AF_INET6 else "0.0.0.0", PORT))
r32 = lambda: R.getrandbits(32)
r64 = lambda: R.getrandbits(64)


def send(data):
    try:
        s.sendto(data, (args.address, PORT))  # not connected: answers come from any port
    except OSError:
        pass


def base(typ, op=0, conn=0, tag=0, psn=0, flags=0, sflags=0, path=0, gen=0, ts=0):
    return struct.pack(">BBBBIIHBBII", 0x10 | typ, flags, path, 0, conn, tag, gen, op, sflags, psn & 0xffffffff, ts)


def hello(conn, tag, nonce, inst, **k):
    f = dict(vmin=1, vmax=1, tc=0, paths=8, payload=1024, mtu=1500, msn=8, spsn=12, naddr=0, ack=16, feat=0)
    f.update(k)
    return base(5, 1) + struct.pack(">BBBBIIHHQQQBBBBIHHIQ", f["vmin"], f["vmax"], f["tc"], f["paths"], conn, tag, f["payload"],
                                    f["mtu"], inst, nonce, 0, f["msn"], f["spsn"], f["naddr"], f["ack"], f["feat"], 0, 0, 0, 0)


def answer(op, seconds=3.0, nonce=None):
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        s.settimeout(left)
        try:
            d = s.recv(2048)
        except OSError:
            continue
        if len(d) >= 88 and d[0] & 15 == 5 and d[14] == op and nonce in (None, struct.unpack_from(">Q", d, 56)[0]):
            return d
        if op == 3 and len(d) >= 24 and d[0] & 15 == 5 and d[14] == 3:
            return d
    return None


def handshake():
    nonce, mine = r64(), (r32() | 1, r32())
    for _ in range(5):
        send(hello(*mine, nonce, r64()))
        d = answer(2, 2.0, nonce)
        if d:
            return struct.unpack_from(">II", d, 28)
    sys.exit("no HELLO_ACK")


conn, tag = handshake()
print("handshake done")
for op in range(256):                    # every byte, systematically
    for pos in (0, 1, 14, 15):
        b = bytearray(base(1, 2) + R.randbytes(R.randrange(201)))
        b[pos] = op
        send(bytes(b))
for n in range(41):
    send(R.randbytes(n)); send((base(1, 2) + bytes(40))[:n])
for i in range(args.count):              # half of them with the right tag
    good = i & 1
    p = bytearray(base(R.randrange(1, 9), R.randrange(9), conn if good else r32(), tag if good else r32(), R.choice((i, r32())),
                       R.choice((0, 0x80, 0x40, R.randrange(256))), R.choice((0, 0xc0, 0x80, 0x40)), R.randrange(256), R.choice((0, 1, 65535)), r32()))
    if p[0] & 15 == 5 and good and p[14] in (4, 5, 6):
        p[14] = 7                        # no farewell
    if p[0] & 15 == 1:
        if R.randrange(3) == 0:          # with an acknowledgement in it
            paths, streams = R.randrange(4), R.randrange(4)
            p[1] |= 8
            p += struct.pack(">IBBH", r32(), paths, streams, 0) + R.randbytes(64 * paths + 24 * streams)
        va = R.choice((0, 2**64 - 1, 2**64 - 4096, r64()))
        p += struct.pack(">IIII", R.getrandbits(24) << 8 | R.choice((0, 0x80, 0x40, 0x20)), R.getrandbits(24) << 8, r32(), r32())
        p += struct.pack(">QIII", va, r32(), R.choice((0, 2**31, 2**32 - 1)), R.choice((0, 1, 2**31, 2**32 - 1)))
    if p[0] & 15 in (2, 7):
        p += struct.pack(">IBBH", r32(), R.choice((0, 1, 255)), R.choice((0, 1, 255)), 0)
    send(bytes(p) + R.randbytes(R.randrange(201)))
    if i % 200 == 0:
        time.sleep(0.005)
for k in ("vmin", "vmax", "tc", "paths", "payload", "mtu", "msn", "spsn", "naddr", "ack", "feat"):
    for v in (0, 1, 2, 63, 64, 255):
        send(hello(r32(), r32(), r64(), r64(), **{k: v}))
        time.sleep(0.001)
for _ in range(200):
    send(base(6, 0, R.choice((conn, r32())), r32()))
for i in range(1500):                    # over the limit of half-open connections
    send(hello(r32(), r32(), r64(), r64()))
    if i % 16 == 0:                      # a sleep may take 10 ms here, and the half-open ones do not live long
        time.sleep(0.001)
answer(0, 0.5)                           # empty the receive buffer
send(base(3, 0, conn, tag ^ 1) + bytes(8))
send(hello(r32(), r32(), r64(), r64()))
print("challenge" if answer(3) else "no challenge")
