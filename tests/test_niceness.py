"""Work on documents has a lower priority than requests that users wait for."""

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from gristmill import niceness


@pytest.mark.skipif(sys.platform != "linux", reason="threads have priorities of their own on Linux")
def test_a_thread_steps_back_by_itself_alone() -> None:
    def mine() -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    before = mine()
    with ThreadPoolExecutor(1, initializer=niceness.lower_thread_priority) as pool:
        assert pool.submit(mine).result() == 5
    assert mine() == before
