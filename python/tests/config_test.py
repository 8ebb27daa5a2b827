"""MaruConfig: names, defaults, what is refused, what the environment says."""

import dataclasses
import os
import re
import subprocess
import sys

import pytest

from maru import MaruConfig

DEFAULTS = {
    "server_url": "tcp://localhost:5555",
    "pool_size": 100 << 20,
    "chunk_size_bytes": 1 << 20,
    "auto_connect": True,
    "timeout_ms": 2000,
    "use_async_rpc": True,
    "max_inflight": 64,
    "eager_map": True,
    "auto_expand": True,
    "expand_size": None,
    "rm_address": "127.0.0.1:9850",
    "enable_stats": False,
}


def test_the_defaults_are_upstreams():
    config = MaruConfig()
    assert {name: getattr(config, name) for name in DEFAULTS} == DEFAULTS


def test_without_an_instance_id_each_has_its_own():
    assert MaruConfig().instance_id != MaruConfig().instance_id
    assert MaruConfig(instance_id="").instance_id == ""


def test_it_takes_upstreams_fields_by_position():
    config = MaruConfig("tcp://host:1", "name", 4 << 20, 2 << 20)
    assert (config.server_url, config.instance_id) == ("tcp://host:1", "name")
    assert (config.pool_size, config.chunk_size_bytes) == (4 << 20, 2 << 20)


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ({"chunk_size_bytes": 0}, "chunk_size_bytes"),
        ({"chunk_size_bytes": -1}, "chunk_size_bytes"),
        ({"pool_size": 1, "chunk_size_bytes": 2}, "pool_size"),
        ({"expand_size": 1 << 20, "auto_expand": False}, "auto_expand"),
        ({"expand_size": 1}, "expand_size"),
        ({"expand_size": 0}, "expand_size"),
    ]
    + [
        ({name: given}, re.escape(f"{name} is {given!r}; "))
        for name, values in {
            "server_url": [None, b"tcp://host:1"],
            "rm_address": [9850],
            "namespace": [None, 7],
            "pool_size": [1 << 64, 1e9, "4G", None],
            "chunk_size_bytes": [0, -1, (1 << 40) + 1, 1.5],
            "timeout_ms": [5000.0, "5000", -1, 0, 3_600_001, None, True],
            "max_inflight": ["64", -1],
            "expand_size": ["1G", 1 << 64],
            "auto_expand": ["no", None, 2, 1.0],
            "enable_stats": ["1"],
        }.items()
        for given in values
    ],
)
def test_what_cannot_be_is_refused_by_name(fields, names):
    with pytest.raises(ValueError, match=names):
        MaruConfig(**fields)


@pytest.mark.parametrize("word", ["1", "true", " YES ", "on"])
def test_the_environment_switches_on(monkeypatch, word):
    monkeypatch.setenv("MARU_STAT", word)
    assert MaruConfig(enable_stats=False).enable_stats


@pytest.mark.parametrize("word", ["0", "False", "no", "OFF"])
def test_the_environment_switches_off(monkeypatch, word):
    monkeypatch.setenv("MARU_EAGER_MAP", word)
    assert not MaruConfig(eager_map=True).eager_map


@pytest.mark.parametrize("name", ["MARU_STAT", "MARU_EAGER_MAP"])
@pytest.mark.parametrize("word", ["", "2", "ja"])
def test_another_word_is_refused_by_the_variables_name(monkeypatch, name, word):
    monkeypatch.setenv(name, word)
    with pytest.raises(ValueError, match=name):
        MaruConfig()


def test_numbers_of_other_libraries_are_numbers():
    class Number:
        def __index__(self):
            return 4 << 20

    config = MaruConfig(pool_size=Number(), auto_connect=0)
    assert type(config.pool_size) is int and config.pool_size == 4 << 20
    assert config.auto_connect is False


@pytest.mark.parametrize(
    "fields",
    [
        {"chunk_size_bytes": 1, "pool_size": 1, "auto_expand": False},
        {"chunk_size_bytes": 1 << 40, "pool_size": 1 << 40, "auto_expand": False},
        {"timeout_ms": 3_600_000},
        {"instance_id": "ключ" * 40},
        {"pool_size": (1 << 64) - 1, "auto_expand": False},
    ],
)
def test_what_may_be_can_be_connected_with(connect, fields):
    assert connect(**fields).connected


def test_it_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        MaruConfig().pool_size = 1


def said(level, program):
    """What a process prints whose handler finds no server, with the variable at that level."""
    environment = {name: value for name, value in os.environ.items() if name != "MARU_LOG_LEVEL"}
    if level is not None:
        environment["MARU_LOG_LEVEL"] = level
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    return done.stderr


CONNECT = "maru.MaruHandler(maru.MaruConfig(server_url='/nowhere/nobody')).connect()\n"


@pytest.mark.parametrize(
    ("level", "lines"), [(None, 0), ("debug", 1), ("nonsense", 1), ("critical", 0)]
)
def test_the_log_level_of_the_environment(level, lines):
    told = said(level, f"import maru\n{CONNECT}")
    assert told.count(" ERROR maru_handler: cannot connect") == lines


SET_UP = "import logging; logging.basicConfig(format='ours %(name)s: %(message)s')\n"
ITS_OWN = "import logging; logging.getLogger('maru_handler').addHandler(logging.StreamHandler())\n"


@pytest.mark.parametrize("level", [None, "info"])
@pytest.mark.parametrize(
    "program",
    [f"{SET_UP}import maru\n{CONNECT}", f"import maru\n{SET_UP}{CONNECT}"]
    + [f"import maru\n{ITS_OWN}{CONNECT}"],
)
def test_a_line_is_printed_once_where_the_application_prints(level, program):
    assert said(level, program).count("cannot connect") == 1


def test_both_ways_of_printing_one_after_the_other():
    told = said("info", f"import maru\n{CONNECT}{SET_UP}{CONNECT}")
    assert told.count(" ERROR maru_handler: cannot connect") == 1
    assert told.count("ours maru_handler: cannot connect") == 1
