"""Peers and participants: what cannot be installed, or fails, is skipped with its reason."""

import sys
from pathlib import Path

import pytest
from benchmarks import compare
from benchmarks.participant import Failed, Participant
from benchmarks.peers import install
from benchmarks.peers.install import NotInstalled, Peer
from benchmarks.works import Row

SCRIPT = """
import sys
sys.path.insert(0, {folder!r})
from serve import serve
print("a library that talks")
def prepare(work, role="", rounds=3):
    if work == "impossible":
        raise ValueError("cannot do this")
    if work == "dies":
        sys.exit(3)
    return (lambda: print("and talks") or sum(range(20000))), rounds
serve(prepare)
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "peer.py"
    path.write_text(SCRIPT.format(folder=str(Path(install.__file__).parent)))
    return [sys.executable, str(path)]


def test_no_python_of_these_versions():
    with pytest.raises(NotInstalled, match=r"no Python 2\.99 or 1\.0"):
        install.interpreter(("2.99", "1.0"))


def test_a_package_that_cannot_be_installed_tells_why(tmp_path, monkeypatch):
    monkeypatch.setenv("WEAKFEEDBACK_PEERS", str(tmp_path))
    monkeypatch.setattr(install, "interpreter", lambda versions: "/no/such/python")
    with pytest.raises(NotInstalled, match="while installing"):
        install.environment(Peer("Nobody", "nobody.py", ("nobody",), ("3.11",)))


def test_an_environment_is_used_again(tmp_path, monkeypatch):
    monkeypatch.setenv("WEAKFEEDBACK_PEERS", str(tmp_path))
    home = tmp_path / "some-peer"
    home.mkdir()
    (home / "installed").write_text("a\nb")
    monkeypatch.setattr(install, "interpreter", lambda versions: pytest.fail("installed again"))
    peer = Peer("Some Peer", "some.py", ("a", "b"), ())
    assert install.environment(peer) == home / "bin" / "python"


def test_a_participant_answers_whatever_its_library_prints(script):
    with Participant(script, work="easy", rounds=7) as one:
        assert one.rounds == 7
        assert one.measure() > 0.0
        assert one.peak_mb > 1.0


@pytest.mark.parametrize(
    ("work", "reason"), [("impossible", "cannot do this"), ("dies", "the process ended")]
)
def test_a_participant_that_fails_tells_why(script, work, reason):
    with pytest.raises(Failed, match=reason):
        Participant(script, work=work)


def test_a_row_goes_on_without_the_peers_that_are_not_there(script, monkeypatch):
    def command(peer):
        if peer.name == "River":
            raise NotInstalled("no wheel for this machine")
        return script

    monkeypatch.setattr(compare, "command", command)
    monkeypatch.setattr(compare, "OURS", script)
    row = Row("easy", {"River": {}, "MABWiser": {"work": "easy"}, "SMPyBandits": {"work": "impossible"}})
    found = compare.measure(row, repetitions=1, peers=True)
    assert set(found.peers) == {"MABWiser"}
    assert found.skipped["River"] == "no wheel for this machine"
    assert "cannot do this" in found.skipped["SMPyBandits"]
    assert compare.measure(row, repetitions=1, peers=False).peers == {}
