# SPDX-License-Identifier: Apache-2.0
"""Reads streams, one thread and connection each: `… reads_streams.py HOST PORT PLANS`.

PLANS is JSON: for each thread a list of `[path, pause_at, pause_s]`; it sleeps so long after so many events.
"""

import http.client
import json
import random
import ssl
import sys
import threading
import time

HOST, PORT, PLANS = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
CONTEXT = ssl._create_unverified_context()


def read(paths):
    connection = http.client.HTTPSConnection(HOST, PORT, context=CONTEXT)
    for path, pause_at, pause_s in paths:
        time.sleep(random.random() * 0.3)
        connection.request("GET", path)
        answer, events = connection.getresponse(), 0
        while line := answer.readline():
            events += line.startswith(b"data")
            if line.startswith(b"data") and events == pause_at:
                time.sleep(pause_s)
    connection.close()


threads = [threading.Thread(target=read, args=(paths,)) for paths in PLANS]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
