# SPDX-License-Identifier: Apache-2.0
"""Loading on the real kernel: every filter passes the verifier, what cannot be loaded is named, nothing is left."""

from __future__ import annotations

import itertools
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from netdiag import assets, btf, manifest, selftest
from netdiag.ebpf.handover import Job, Plan, load
from netdiag.ebpf.syscall import Variables, enable_stats, in_netns, program_cost, walk
from netdiag.errors import Unsupported, UsageError
from netdiag.recorder.plan import job
from tests.kernel.harness import ROOT, serve

pytestmark = pytest.mark.kernel


ME = {"pids": [os.getpid()]}


@pytest.fixture
def loaded(cleanup):
    """Return a function that loads a job and closes all its descriptors at the end of the test."""

    def do(prepare):
        items = load(prepare)
        fds = set()
        for item in items:
            fds |= {fd for fd, _ in item.maps.values()} | set(item.programs.values()) | set(item.links)
            fds |= set(item.iterators.values())
        for fd in fds:
            cleanup.callback(os.close, fd)
        return items

    return do


FILTERS = {
    "pids": [4711],
    "comm": "ndk-comm",
    "exe": "ndk-program",
    "port": 443,
    "hosts": ["127.0.0.0/8", "fd00::/8"],
    "follow": False,
}


@pytest.mark.parametrize("number", range(len(FILTERS) + 1))
def test_every_set_of_filters_passes_the_verifier(number, loaded):
    """The verifier sees other code with each filter: the branches of those that are off are gone."""
    for names in itertools.combinations(FILTERS, number):
        wanted = {name: FILTERS[name] for name in names}
        for item in loaded(lambda wanted=wanted: job([], wanted, {})):
            assert item.failed == {}, f"{item.name} with {names}"


def test_a_cgroup_filter_passes_the_verifier(loaded, cgroup):
    wanted = {name: value for name, value in FILTERS.items() if name != "pids"}
    for item in loaded(lambda: job([], {"cgroup": str(cgroup), **wanted}, {})):
        assert item.failed == {}


def test_the_programs_of_a_container_pass_the_verifier(loaded):
    """In a PID namespace numbers are looked up another way: the knob is set as if this were one."""

    def prepare():
        found = job([], {**FILTERS}, {})
        return Job(
            plans=found.plans, knobs={**found.knobs, "nd_pidns": 4711}, entries=found.entries, cgroup=found.cgroup
        )

    for item in loaded(prepare):
        assert item.failed == {}


def test_every_program_is_attached_and_has_its_counters(loaded):
    items = loaded(lambda: job([], ME, {"plaintext": True}))
    probes = {probe.name: probe for probe in manifest.probes() if probe.default}
    assert {item.name for item in items} == set(probes)
    for item in items:
        sections = {attach.program: attach.section.partition("/")[0] for attach in probes[item.name].attach}
        assert set(item.programs) == set(sections)
        assert set(item.iterators) == {name for name, section in sections.items() if section == "iter"}
        at_once = [name for name, section in sections.items() if section in {"tp_btf", "cgroup", "cgroup_skb"}]
        assert len(item.links) == len(at_once)
        for stream in probes[item.name].streams:
            assert {f"{stream.map}_seen", f"{stream.map}_lost"} <= set(item.places)


def test_layouts_of_all_streams_are_in_the_objects():
    for probe in manifest.probes():
        layouts = btf.structs(assets.bpf_object(probe.object), [stream.struct for stream in probe.streams])
        for stream in probe.streams:
            fields = {field.name for field in layouts[stream.struct].fields}
            assert fields == {column.name for column in stream.columns}, stream.name


def test_maps_with_one_name_are_one_map(loaded):
    items = {item.name: item for item in loaded(lambda: job([], ME, {}))}
    shared = set(items["tcp"].maps) & set(items["process"].maps)
    assert {"targets", "process_events"} <= shared
    ids = {
        name: {map_id(items[probe].maps[name][0]) for probe in ("tcp", "process")} for name in shared if "." not in name
    }
    assert {name: len(found) for name, found in ids.items()} == dict.fromkeys(ids, 1)


def map_id(fd):
    text = Path(f"/proc/self/fdinfo/{fd}").read_text()
    return next(line.split()[1] for line in text.splitlines() if line.startswith("map_id"))


def test_nothing_is_pinned(loaded):
    before = sorted(Path("/sys/fs/bpf").rglob("*")) if Path("/sys/fs/bpf").is_dir() else []
    loaded(lambda: job([], ME, {}))
    assert (sorted(Path("/sys/fs/bpf").rglob("*")) if Path("/sys/fs/bpf").is_dir() else []) == before


def test_the_loading_child_is_gone_and_took_libbpf_with_it():
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
    code += "from netdiag.ebpf.handover import load\nfrom netdiag.recorder.probes import prepare\n"
    code += "items = load(lambda: prepare([], {'pids': [1]}, {'plaintext': True}))\n"
    code += "print(len(items), 'libbpf' in open('/proc/self/maps').read(), open('/proc/self/task/self/children').read()"
    code = code.replace("/proc/self/task/self", "/proc/thread-self") + ")"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(sum(probe.default for probe in manifest.probes())), "False"]


# --- what cannot be loaded ----------------------------------------------------------------------------------------


def broken(tmp_path, name="tcp", *, cut=None, swap=None):
    """Return a copy of an object, cut short or with some bytes replaced by others of the same length."""
    data = assets.bpf_object(name).read_bytes()
    if swap:
        assert swap[0] in data
        data = data.replace(*swap)
    path = tmp_path / f"{name}.bpf.o"
    path.write_bytes(data[:cut])
    return path


def plan(path, **members):
    return Plan(**{"name": "tcp", "path": path, "optional": frozenset(), "iterators": (), "about": {}} | members)


def one(path, **members):
    return lambda: Job(plans=[plan(path, **members)], knobs={}, entries={}, cgroup=None)


def test_a_damaged_object_is_an_error_with_its_name(tmp_path):
    with pytest.raises(Unsupported, match="tcp"):
        load(one(broken(tmp_path, cut=5000)))


def test_a_hook_that_the_kernel_lacks_fails_alone_where_it_is_optional(tmp_path, loaded):
    """`tcp_retransmit_skb` is made a name that no kernel has, and so is the program, which is named after it."""
    path = broken(tmp_path, swap=(b"tp_btf/tcp_retransmit_skb", b"tp_btf/tcp_retransmit_ndk"))
    probe = next(probe for probe in manifest.probes() if probe.name == "tcp")
    optional = frozenset(attach.program for attach in probe.attach if not attach.required)
    assert "tcp_retransmit_skb" in optional
    (item,) = loaded(one(path, optional=optional | {"tcp_retransmit_ndk"}))
    assert set(item.failed) == {"tcp_retransmit_ndk"}
    assert "inet_sock_set_state" in item.programs
    assert len(item.links) >= 5


def test_a_hook_that_is_needed_ends_it_with_its_name(tmp_path):
    path = broken(tmp_path, swap=(b"tp_btf/inet_sock_set_state", b"tp_btf/inet_sock_set_ndkxx"))
    with pytest.raises(Unsupported, match="inet_sock_set"):
        load(one(path))


def test_one_object_that_fails_leaves_the_others_be(tmp_path, loaded):
    plans = [plan(broken(tmp_path, cut=5000)), plan(assets.bpf_object("process"), name="process")]
    items = loaded(lambda: Job(plans=plans, knobs={}, entries={}, cgroup=None))
    assert [("" in item.failed) for item in items] == [True, False]
    assert items[1].links


def test_without_cgroup_v2_the_rest_is_loaded(loaded):
    found = job([], ME, {})
    items = loaded(lambda: Job(plans=found.plans, knobs=found.knobs, entries=found.entries, cgroup=None))
    assert all("" not in item.failed for item in items)


def test_unknown_probes_are_the_callers_fault():
    with pytest.raises(UsageError, match="there is no probe 'ndk'"):
        load(lambda: job(["ndk"], ME, {}))


def test_without_rights_the_error_names_what_is_missing():
    """In a child that has given up everything."""
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
    code += "from netdiag.ebpf.handover import load\nfrom netdiag.recorder.probes import prepare\n"
    code += "from netdiag.errors import NotPermitted\n"
    code += "try:\n    load(lambda: prepare([], {'pids': [1]}, {}))\n"
    code += "except NotPermitted as error:\n    print(error.message, '|', error.hint)\n"
    argv = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"]
    done = subprocess.run([*argv, sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "CAP_BPF" in done.stdout


# --- what is used afterwards --------------------------------------------------------------------------------------


def test_counters_and_costs_are_live(loaded):
    stats = enable_stats()
    assert stats is not None
    try:
        items = {item.name: item for item in loaded(lambda: job([], ME, {}))}
        variables = Variables(items["tcp"].places, items["tcp"].sizes)
        assert variables.get("events_seen") == 0
        with serve() as listener, socket.create_connection(listener.getsockname()), listener.accept()[0]:
            pass
        assert variables.get("events_seen") >= 4
        assert variables.get("events_lost") == 0
        costs = {cost["name"]: cost for cost in program_cost(items["tcp"].programs)}
        assert int(costs["inet_sock_set_state"]["runs"]) > 4
        assert int(costs["inet_sock_set_state"]["ns"]) > 0
        with pytest.raises(KeyError):
            variables.get("no_such_variable")
    finally:
        os.close(stats)


def test_a_walk_gives_its_caller_time_to_empty_the_rings(loaded, keep):
    listener = keep(serve(backlog=600))
    keep(*(socket.create_connection(listener.getsockname()) for _ in range(500)))
    items = {item.name: item for item in loaded(lambda: job([], ME, {}))}
    variables = Variables(items["tcp"].places, items["tcp"].sizes)
    pauses = []
    variables.set("nd_look_began", 1)
    variables.set("nd_look_mode", 1)
    walk(items["tcp"].iterators["holders"])
    walk(items["tcp"].iterators["look"], lambda: pauses.append(variables.get("events_seen")))
    assert variables.get("events_seen") >= 500
    assert len(pauses) >= 2
    assert max(b - a for a, b in itertools.pairwise([0, *pauses])) < 400


def test_a_namespace_is_entered_and_left(network):
    home = Path("/proc/thread-self/ns/net").stat().st_ino
    with in_netns(network.path) as entered:
        assert entered
        assert Path("/proc/thread-self/ns/net").stat().st_ino == Path(network.path).stat().st_ino
    assert Path("/proc/thread-self/ns/net").stat().st_ino == home
    with in_netns("/run/netns/ndk-none") as entered:
        assert not entered


def test_the_self_test_is_passed_here():
    outcome = selftest.run()
    assert outcome.mismatches == ()
    assert outcome.connections == 6
    assert {probe["state"] for probe in outcome.coverage["probes"]} == {"attached"}


def test_the_doctor_finds_nothing_missing_here():
    command = [sys.executable, "-m", "netdiag", "doctor", "--color", "never"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout
    assert "missing" not in done.stdout
    assert all(len(line) <= 80 for line in done.stdout.splitlines())


def test_the_doctor_says_that_loopback_is_down():
    command = ["unshare", "-n", sys.executable, "-m", "netdiag", "doctor", "--color", "never"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.returncode, done.stderr) == (5, "")
    assert "ip link set lo up" in " ".join(done.stdout.split())


def test_the_doctor_of_an_ordinary_user_goes_on():
    argv = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    command = [*argv, sys.executable, "-B", "-m", "netdiag", "doctor", "--color", "never"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode in {0, 5}
    assert "Traceback" not in done.stderr
    last = [line for line in done.stdout.splitlines() if line.startswith(("ok", "degraded", "missing"))][-1]
    assert last.split()[:2] == ["degraded", "self-test"]
