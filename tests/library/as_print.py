#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Writes the lines of `tracebraid report --json` as docs/examples/print.c prints them."""

import json
import sys

for line in sys.stdin:
    item = json.loads(line)
    if item["type"] == "event":
        print(f"{item['ns']} {item['stream']} {item['cpu']} {item['comm']}-{item['pid']} "
              f"{item.get('subevent', item['event'])}: {item['text']}")
    elif item["type"] == "note":
        print(f"{item['ns']} {item['stream']} {item['text']}")
    elif item["type"] == "lost":
        lost = item["lost"]
        text = "LOST some events" if lost is None else f"LOST {lost} event{'' if lost == 1 else 's'}"
        if item.get("damaged"):
            text += f" ({item['damaged']} of them recorded, but not readable here)"
        print(f"{item['ns']} {item['stream']} {text}")
