"""The processes of the tests themselves."""

import signal
import subprocess
import sys
import time

import pytest
from tests.rig.processes import started, wait_until

WAITING = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"]


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("disposition", [signal.SIG_IGN, signal.SIG_DFL, signal.default_int_handler], ids=str)
def test_children_hear_an_interrupt_where_the_tests_do_not(disposition):
    """As under nohup: there everything that is started ignores SIGINT, if nothing is done about it."""
    before = signal.signal(signal.SIGINT, disposition)
    try:
        with started(WAITING, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert process.stdout.readline() == "up\n"
            process.send_signal(signal.SIGINT)
            assert "KeyboardInterrupt" in process.communicate()[1]
        assert process.returncode == -signal.SIGINT
        assert signal.getsignal(signal.SIGINT) is disposition
    finally:
        signal.signal(signal.SIGINT, before)


def test_nothing_is_left_behind_when_a_test_fails():
    with pytest.raises(ZeroDivisionError), started(WAITING, stdout=subprocess.PIPE) as process:
        _ = 1 / 0
    assert process.returncode not in (None, 0)
    assert process.stdout.closed


def test_waiting_ends_with_the_process():
    with started([sys.executable, "-c", ""]) as process:
        wait_until(lambda: False, process)
    assert process.returncode == 0


def test_waiting_ends_with_what_is_waited_for():
    asked = []
    before = time.monotonic()
    wait_until(lambda: asked.append(1) or len(asked) == 3, pause=0.01)
    assert len(asked) == 3
    assert time.monotonic() - before >= 0.02
