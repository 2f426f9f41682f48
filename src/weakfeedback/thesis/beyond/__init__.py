"""Beyond the thesis: newer policies against its best, on its instances and on random problems. No claims."""

from __future__ import annotations

from weakfeedback.experiments.model import Claim
from weakfeedback.thesis.beyond import changing, cycle, second_looks
from weakfeedback.thesis.beyond import tables as beyond_tables
from weakfeedback.thesis.beyond.adaptive import ADAPTIVE, TABLE
from weakfeedback.thesis.beyond.experiments import INSTANCES
from weakfeedback.thesis.beyond.families import FAMILIES
from weakfeedback.thesis.beyond.last_stage import LAST
from weakfeedback.thesis.beyond.last_stage import TABLES as LAST_TABLES
from weakfeedback.thesis.beyond.open_players import OPEN
from weakfeedback.thesis.beyond.open_players import TABLE as OPEN_TABLE
from weakfeedback.thesis.beyond.recorded import RECORDED
from weakfeedback.thesis.beyond.recorded import TABLES as RECORDED_TABLES

NUMBER = 6
HEADING = "Beyond the thesis"
TITLE = "Policies that decide better, and where they do not"
EXPERIMENTS = {
    **INSTANCES,
    **FAMILIES,
    **ADAPTIVE,
    **cycle.EXPERIMENTS,
    **OPEN,
    **RECORDED,
    **LAST,
    **second_looks.EXPERIMENTS,
}
TABLES = (
    *(*beyond_tables.TABLES, TABLE, cycle.TABLE, OPEN_TABLE, changing.TABLE),
    *(*RECORDED_TABLES, *LAST_TABLES, second_looks.TABLE),
)
CLAIMS: tuple[Claim, ...] = ()

__all__ = ["CLAIMS", "EXPERIMENTS", "HEADING", "NUMBER", "TABLES", "TITLE"]
