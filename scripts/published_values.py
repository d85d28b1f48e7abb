"""Writes measured values where 'dnsrack report --coverage' reads them; used by the scripts that measure without a run."""

import json


def write(folder, table, command, values):
    """Writes FOLDER/TABLE.values.json. TABLE is the published table's name, COMMAND what measured the values.

    VALUES is a list of (row, column, measured): the names of the row (a list) and of the column as published, and a value of each repeat.
    """
    values = [{"row": row, "column": column, "measured": measured} for row, column, measured in values]
    with open(f"{folder}/{table}.values.json", "w") as file:
        json.dump({"table": table, "command": command, "values": values}, file, indent=1)
