"""What maru_sglang does without SGLang: settings, keys, and how much of a prefix is there."""

import types

import pytest

import maru_sglang
from maru_sglang.config import MaruSGLangConfig, parse_size
from maru_sglang.hits import all_pages, block_groups, trailing_pages
from maru_sglang.suffixes import Suffixes


@pytest.mark.parametrize(
    ("given", "size"),
    [("4G", 4 << 30), ("1.5g", 3 << 29), ("512 MB", 512 << 20), ("128 KiB", 128 << 10)]
    + [("7", 7), (7, 7), (7.9, 7), ("1T", 1 << 40)],
)
def test_sizes(given, size):
    assert parse_size(given) == size


@pytest.mark.parametrize("given", ["", "G", "4X", "-1", "1e3", "4 G B"])
def test_what_is_no_size(given):
    with pytest.raises(ValueError, match="no size"):
        parse_size(given)


def test_keys_of_others_are_not_looked_at():
    assert MaruSGLangConfig.from_extra_config(None) == MaruSGLangConfig()
    config = MaruSGLangConfig.from_extra_config(
        {
            "backend_name": "maru",
            "maru_server_url": "tcp://host:1",
            "maru_pool_size": "2G",
            "maru_timeout_ms": "500",
            "maru_eager_map": "false",
            "maru_chunk_size_bytes": None,
        }
    )
    expected = MaruSGLangConfig(
        server_url="tcp://host:1", pool_size=2 << 30, timeout_ms=500, eager_map=False
    )
    assert config == expected


@pytest.mark.parametrize(
    ("key", "given"),
    [("maru_eager_map", "perhaps"), ("maru_pool_size", "many"), ("maru_max_inflight", "x")]
    + [("maru_timeout_ms", []), ("maru_chunk_size_bytes", [])],
)
def test_a_setting_that_cannot_be_is_named(key, given):
    with pytest.raises(ValueError, match=key):
        MaruSGLangConfig.from_extra_config({key: given})


def test_pages_are_what_is_stored_or_larger():
    config = MaruSGLangConfig(pool_size=1 << 20, instance_id="label", namespace="ours")
    assert [config.page_bytes(size) for size in (1, 4096, 4097)] == [4096, 4096, 8192]
    told = config.handler_config(config.page_bytes(3 << 20))
    assert (told.chunk_size_bytes, told.pool_size) == (3 << 20, 3 << 20)
    assert (told.instance_id, told.namespace) == ("label", "ours")
    assert MaruSGLangConfig(chunk_size_bytes=1 << 20).page_bytes(5) == 1 << 20


def test_the_package_imports_where_sglang_is_not():
    assert "MaruStorage" in maru_sglang.__all__
    with pytest.raises(AttributeError):
        maru_sglang.Other  # noqa: B018


def suffix(name="kv", pages=None, **fields):
    config = {
        **{"model_name": "org/model", "tp_rank": 1, "tp_size": 4, "is_mla_model": False},
        **fields,
    }
    return Suffixes(types.SimpleNamespace(**config)).of(name, pages)


def test_what_a_page_depends_on_is_in_its_key():
    pages = types.SimpleNamespace(kind="bfloat16_page_first", has_heads=False)
    heads = types.SimpleNamespace(kind="bfloat16_page_first", has_heads=True)
    assert suffix() == "_org/model_1_4"
    assert suffix(pages=pages) == "_org/model_1_4_bfloat16_page_first"
    parallel = {"pp_rank": 1, "pp_size": 2, "attn_cp_rank": 2, "attn_cp_size": 3}
    assert suffix(**parallel) == "_org/model_1_4_pp1_2_attn_cp2_3"
    assert suffix(model_name=None) == "__1_4"
    mla = {"is_mla_model": True, "dcp_rank": 0, "dcp_size": 2}
    assert suffix(**mla) == "_org/model_dcp0_2"
    assert suffix("indexer", pages, is_mla_model=True) == "_org/model_bfloat16_page_first"
    assert suffix("kv", heads, is_mla_model=True) == "_org/model_bfloat16_page_first"
    for name, kind in (("mamba", pages), ("draft", heads)):
        assert suffix(name, kind, is_mla_model=True) == "_org/model_1_4_bfloat16_page_first"


def bits(text):
    return [one == "1" for one in text]


@pytest.mark.parametrize(
    ("there", "lengths"), [("", []), ("0", []), ("01", []), ("110", [1, 2]), ("11", [1, 2])]
)
def test_prefixes_of_which_every_page_is_there(there, lengths):
    assert all_pages(bits(there)) == lengths


@pytest.mark.parametrize(
    ("there", "tail", "lengths"),
    [("", 1, []), ("01011", 1, [2, 4, 5]), ("01011", 2, [5]), ("1101", 2, [1, 2])]
    + [("111", 5, [1, 2, 3]), ("0111", 3, [4]), ("10111", 4, [1])],
)
def test_prefixes_whose_last_pages_are_there(there, tail, lengths):
    assert trailing_pages(bits(there), tail) == lengths


@pytest.mark.parametrize(
    ("there", "block", "group", "pages"),
    [("1111", 8, 2, 16), ("1110", 8, 2, 8), ("01", 8, 1, 0), ("11", 0, 1, 0), ("11", 1, 0, 0)],
)
def test_pages_that_whole_groups_cover(there, block, group, pages):
    assert block_groups(bits(there), block, group) == pages
