# SPDX-License-Identifier: Apache-2.0
"""client.py PORT PER_SECOND: an HTTP client of the standard library that asks at a steady rate on one connection.

Prints a line of counters every 50 ms until killed: monotonic ns, requests, own CPU ns.
"""

from __future__ import annotations

import http.client
import json
import sys
import time


def main(port: int, per_second: int) -> None:
    """Ask until killed."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    count, following, said = 0, time.monotonic(), 0.0
    while True:
        time.sleep(max(0.0, following - time.monotonic()))
        connection.request("GET", "/v1/models", headers={"Accept": "application/json"})
        json.loads(connection.getresponse().read())
        count += 1
        following += 1 / per_second
        if following - said >= 0.05:
            said = following
            print(time.monotonic_ns(), count, time.process_time_ns(), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
