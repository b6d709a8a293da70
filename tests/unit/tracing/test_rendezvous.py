# SPDX-License-Identifier: Apache-2.0
"""Where front and recorder meet: private, gone afterwards, closed to strangers."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from netdiag.recorder.link import Link, Peer
from netdiag.tracing import rendezvous as rendezvous_module
from netdiag.tracing.rendezvous import Rendezvous


def test_the_directory_is_private_and_gone_afterwards() -> None:
    with Rendezvous() as rendezvous:
        directory = Path(rendezvous.path).parent
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert not directory.exists()


def test_a_recorder_meets_the_front() -> None:
    with Rendezvous() as rendezvous:
        recorder = Link.connect(rendezvous.path, uid=os.geteuid())
        front = rendezvous.accept(lambda peer: peer.pid == os.getpid(), timeout_s=1.0)
    with front, recorder:
        assert front.peer == Peer(pid=os.getpid(), uid=os.geteuid(), gid=os.getegid())
        recorder.send({"say": "armed"})
        assert front.receive()[0] == {"say": "armed"}


def test_an_unknown_peer_is_hung_up_on() -> None:
    with Rendezvous() as rendezvous, Link.connect(rendezvous.path, uid=os.geteuid()) as stranger:
        with pytest.raises(TimeoutError, match="did not connect"):
            rendezvous.accept(lambda peer: peer.pid != os.getpid(), timeout_s=0.05)
        with pytest.raises(EOFError):
            stranger.receive()


def test_a_recorder_refuses_a_front_of_another_user() -> None:
    with Rendezvous() as rendezvous, pytest.raises(PermissionError, match="belongs to user"):
        Link.connect(rendezvous.path, uid=os.geteuid() + 1)


def test_a_runtime_directory_too_long_for_a_socket_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(deep))
    with Rendezvous() as rendezvous:
        assert not rendezvous.path.startswith(str(deep))


def test_a_writable_directory_of_nobody_in_particular_is_not_private(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert rendezvous_module._is_usable(str(tmp_path))
    assert not rendezvous_module._is_usable(str(tmp_path / "file"))
    assert not rendezvous_module._is_usable("relative")
