"""The oracle of the project file: the tables that its log of events describes."""

import json
from collections.abc import Sequence

from outlark.review.store import UNDOABLE, Row


def replayed(events: Sequence[Row]) -> dict[str, dict[int, Row]]:
    """The undoable tables according to the log: table → id → row."""
    tables: dict[str, dict[int, Row]] = {table: {} for table in UNDOABLE}
    for event in events:
        if event["state"] == "done":
            for change in json.loads(event["changes"]):
                tables[change["table"]].pop(change["id"], None)
                if change["after"] is not None:
                    tables[change["table"]][change["id"]] = change["after"]
    return tables
