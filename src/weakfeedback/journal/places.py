"""File systems on which a store must not lie."""

import os
from pathlib import Path

# their locks and fsync are not reliable between machines, or not always
NETWORK = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre", "beegfs", "gpfs"}
    | {"ocfs2", "gfs2", "coda", "ncpfs", "davfs"}
    | {"fuse.glusterfs", "fuse.sshfs", "fuse.s3fs", "fuse.rclone", "fuse.davfs2"}
)


def network_file_system(path: Path, mounts: Path = Path("/proc/mounts")) -> str | None:
    """Return the type of the network file system that holds ``path``; None if it is not known to be one."""
    try:
        lines = os.fsdecode(mounts.read_bytes()).splitlines()
    except OSError:
        return None
    best, kind = -1, ""
    for line in lines:
        words = line.split(" ")
        if len(words) < 3:
            continue
        point = Path(_unescaped(words[1]))
        if path.is_relative_to(point) and len(point.parts) >= best:  # a later mount hides an earlier one
            best, kind = len(point.parts), words[2]
    return kind if kind in NETWORK else None


def _unescaped(text: str) -> str:
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, character)
    return text
