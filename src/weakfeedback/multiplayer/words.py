"""Descriptions of what a player is doing."""

from __future__ import annotations

from typing import Any

from weakfeedback.multiplayer import opening
from weakfeedback.multiplayer.opening import Opening
from weakfeedback.multiplayer.policies import claims, dlc, dlc_lix, match, sic_mmab
from weakfeedback.multiplayer.policies.claims import Claims
from weakfeedback.multiplayer.policies.dlc import Dlc
from weakfeedback.multiplayer.policies.dlc_lix import DlcLix
from weakfeedback.multiplayer.policies.dpe1 import Dpe1
from weakfeedback.multiplayer.policies.match import Match
from weakfeedback.multiplayer.policies.musical_chairs import MusicalChairs
from weakfeedback.multiplayer.policies.sic_mmab import SicMmab

DLC_STAGES = {
    dlc.LEARN: "exploring",
    dlc.SERVE: "telling",
    dlc.LISTEN: "listening",
    dlc.WAIT: "waiting",
}
LIX_STAGES = {
    dlc_lix.SIT: "sitting",
    dlc_lix.EXPLORE: "exploring",
    dlc_lix.SIGNAL: "telling",
    dlc_lix.COLLECT: "listening",
    dlc_lix.TELL: "telling",
    dlc_lix.SEND: "telling",
    dlc_lix.HEAR: "listening",
}
CLAIMS_STATES = {
    claims.SEEK: "seeking",
    claims.CLAIM: "claiming",
    claims.HOME: "owning",
    claims.MOVE: "moving",
    claims.RECLAIM: "reclaiming",
}
MATCH_STAGES = {
    match.TRY: "exploring",
    match.TELL: "telling",
    match.PLAY: "playing",
    match.CALL: "telling",
    match.ASK: "listening",
    match.REPORT: "telling",
    match.MOVE: "telling",
}
SENTENCES = {
    "playing": "playing the arm of the present assignment",
    "seeking": "looking for an arm that nobody owns",
    "claiming": "playing a free arm once more, to own it",
    "owning": "owning an arm, and trying better ones now and then",
    "moving": "playing a better arm once more, to own it",
    "reclaiming": "back on its old arm, which somebody else may own by now",
    "orthogonalisation": "looking for an arm that nobody else plays",
    "alarm sweep": "making sure that everybody has an arm of its own",
    "indexing": "counting the players by meeting them once",
    "exploring": "finding out which arms are best",
    "sitting": "playing its reserved arm until it is told of a better one",
    "waiting": "idling until all players know their arms",
    "polling": "idling, and playing its reserved arm at agreed times to be told of its arm",
    "telling": "sending a word to another player by collisions",
    "listening": "receiving a word from another player by collisions",
    "learning": "learning the arms and the number of players",
    "choosing": "trying the best arms until one is free",
    "settled": "staying on its arm",
    "rotating": "hopping through the best arms in turn with the others",
}


def phase_of(policy: Any) -> str:
    """Return one word for what a player is doing; "learning" or "settled" for a user-defined policy."""
    if policy.settled:
        return "rotating" if getattr(policy, "fair", False) else "settled"
    if isinstance(policy, Opening) and policy.phase != opening.PLAYING:
        words = {opening.SEATING: "orthogonalisation", opening.SWEEP: "alarm sweep"}
        return words.get(policy.phase, "indexing")
    if isinstance(policy, Dlc):
        polling = policy.stage == dlc.LEARN and policy.rank > 0
        return "polling" if polling else DLC_STAGES.get(policy.stage, "learning")
    if isinstance(policy, DlcLix):
        return LIX_STAGES.get(policy.stage, "learning")
    if isinstance(policy, SicMmab):
        return "telling" if policy.stage == sic_mmab.TALKING else "exploring"
    if isinstance(policy, Dpe1):
        leading = "telling" if policy.talking else "exploring"
        following = "listening" if policy.talking else "rotating"
        return leading if policy.rank == 0 else following
    if isinstance(policy, Match):
        return MATCH_STAGES[policy.stage]
    if isinstance(policy, Claims):
        return CLAIMS_STATES[policy.state]
    if isinstance(policy, MusicalChairs):
        return "learning" if policy.slot < policy.T0 else "choosing"
    return "learning"


def description_of(policy: Any, slot: int) -> str:
    """Return a sentence or two on what a player is doing, and on what went wrong."""
    phase = phase_of(policy)
    text = f"Slot {slot}: {SENTENCES[phase]}"
    if phase == "settled":
        text = f"Slot {slot}: staying on arm {policy.arm}"
    elif phase == "owning":
        text = f"Slot {slot}: owning arm {policy.arm} for {policy.quiet_slots} slots, trying better ones at times"
    elif isinstance(policy, Opening) and policy.phase == opening.SEATING:
        text += f", slot {policy.slot + 1} of {policy.seating_rounds}"
    known = int(getattr(policy, "N", 0))
    if known > 0:
        text += f"; {known} player{'s' if known > 1 else ''} {counted(policy)}"
    if isinstance(policy, Opening) and policy.phase == opening.PLAYING:
        text += f", own rank {policy.rank}" + (" and leads" if policy.rank == 0 else "")
    return f"{text}.{troubles(policy)}"


def counted(policy: Any) -> str:
    """Return in words how certain the number of players is."""
    return "estimated" if isinstance(policy, MusicalChairs) else "counted"


def troubles(policy: Any) -> str:
    """Return what went wrong, as sentences with a space before each."""
    text = ""
    if getattr(policy, "failed", False):
        text += " It found no free arm in time (failed)."
    if getattr(policy, "restarts", 0):
        text += f" The alarm had everybody sit down again {policy.restarts} times."
    if getattr(policy, "fault", 0):
        text += (
            f" {policy.fault} collisions cannot have been: a slot was lost, or a player came or went (fault)."
        )
    if getattr(policy, "garbled", False):
        text += " It was told of an arm that does not exist (garbled)."
    return text
