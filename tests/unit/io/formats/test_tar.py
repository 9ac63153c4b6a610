"""The scan of tar files."""

from __future__ import annotations

import gzip
import tarfile

import data_sets
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from horovod_opt.io.errors import DataError, TruncatedFile
from horovod_opt.io.formats import tar


def scan(path):
    return tar.scan(str(path), path.stat().st_size)


def special(name, kind, **fields):
    info = tarfile.TarInfo(name)
    info.type = kind
    for field, value in fields.items():
        setattr(info, field, value)
    return info


def test_samples_as_webdataset_groups_them(tmp_path):
    path = data_sets.tar(tmp_path / "a.tar", [
        special("data", tarfile.DIRTYPE), ("data/0001.jpg", b"one"), ("data/0001.SEG.png", b""),
        ("README", b"no extension"), ("data/.hidden.jpg", b"hidden"),
        ("data.v2/0002.seg.png", b"s"), ("data.v2/0002.jpg", b"two"), ("__init__", b"")])
    result = scan(path)
    assert result.parts == ("jpg", "seg.png")
    assert result.keys.strings() == ["data/0001", "data.v2/0002"]
    assert result.size.tolist() == [[3, 0], [3, 1]]
    assert result.crc is None
    whole = path.read_bytes()
    assert [[whole[offset:offset + size] for offset, size in zip(*row)]
            for row in zip(result.offset, result.size)] == [[b"one", b""], [b"two", b"s"]]


@settings(max_examples=30, deadline=None)
@given(sizes=st.lists(st.tuples(st.integers(0, 1500), st.integers(0, 600)), min_size=1,
                      max_size=8),
       kind=st.sampled_from([tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]),
       name=st.sampled_from(["{}", "ü{}", "a/" * 60 + "{}"]))
def test_offsets_in_all_dialects(tmp_path_factory, sizes, kind, name):
    path = tmp_path_factory.mktemp("t") / "a.tar"
    contents = []
    with tarfile.open(path, "w", format=kind) as archive:
        for i, (first, second) in enumerate(sizes):
            contents.append([bytes([i]) * first, bytes([i + 100]) * second])
            for part, data in zip(("x", "y.z"), contents[-1]):
                info = tarfile.TarInfo(f"{name.format(i)}.{part}")
                info.size = len(data)
                archive.addfile(info, tarfile.io.BytesIO(data))
    result, whole = scan(path), path.read_bytes()
    assert result.parts == ("x", "y.z")
    assert result.keys.strings() == [name.format(i) for i in range(len(sizes))]
    assert [[whole[offset:offset + size] for offset, size in zip(*row)]
            for row in zip(result.offset.tolist(), result.size.tolist())] == contents


@pytest.mark.parametrize(("member", "reason"), [
    (special("1.jpg", tarfile.SYMTYPE, linkname="x"), "it is a link to 'x'"),
    (special("1.jpg", tarfile.LNKTYPE, linkname="x"), "it is a link to 'x'"),
    (special("1.jpg", tarfile.CHRTYPE), "it is neither a file nor a folder"),
    (special("1.jpg", tarfile.FIFOTYPE), "it is neither a file nor a folder"),
    (special("1.jpg", tarfile.GNUTYPE_SPARSE), "it is sparse"),
    (("/etc/1.jpg", b""), "its path leaves the archive"),
    (("../1.jpg", b""), "its path leaves the archive"),
    (("a/../1.jpg", b""), "its path leaves the archive"),
    (("a\udcff.jpg", b""), "its name is not UTF-8"),
    (("0.jpg", b""), "this name comes twice"),
    (("0.JPG", b""), "this name comes twice"),
])
def test_members_that_are_refused(tmp_path, member, reason):
    path = data_sets.tar(tmp_path / "a.tar", [("0.jpg", b"x"), member])
    name = ascii(member.name if isinstance(member, tarfile.TarInfo) else member[0])
    with pytest.raises(DataError) as caught:
        scan(path)
    assert f"{path}: member {name}: {reason}" in str(caught.value)
    assert "; remedy: " in str(caught.value)


def test_a_name_twice_that_is_no_part(tmp_path):
    path = data_sets.tar(tmp_path / "a.tar", [("0.jpg", b"x"), ("README", b""), ("README", b"")])
    with pytest.raises(DataError, match="'README': this name comes twice; .*tar --sort=name"):
        scan(path)


def test_members_of_a_sample_that_are_apart(tmp_path):
    path = data_sets.tar(tmp_path / "a.tar", [("0.jpg", b"x"), ("1.jpg", b"x"), ("0.cls", b"x")])
    with pytest.raises(DataError, match=r"'0\.cls': sample '0' has begun before.*--sort=name"):
        scan(path)


def test_a_sample_that_lacks_a_part(tmp_path):
    path = data_sets.tar(tmp_path / "a.tar", [("0.jpg", b"x"), ("1.cls", b"yy"), ("1.jpg", b"")])
    result = scan(path)
    assert result.parts == ("jpg", "cls") and result.size.tolist() == [[1, 0], [0, 2]]
    assert (result.offset == 0).tolist() == [[False, True], [False, False]]


def test_more_parts_than_samples_have(tmp_path):
    path = data_sets.tar(tmp_path / "a.tar", [(f"{i}.part{i}", b"") for i in range(65)])
    with pytest.raises(DataError, match="samples have 65 parts or more, as part0, part1, .*remedy"):
        scan(path)


def test_samples_before_a_truncation(tmp_path):
    members = [(f"{i}.{part}", bytes([i]) * 700) for i in range(3) for part in ("jpg", "cls")]
    path = data_sets.tar(tmp_path / "a.tar", members)
    whole, member = path.read_bytes(), 512 + 1024
    for length in range(0, 6 * member + 512, 512):
        path.write_bytes(whole[:length])
        samples = min(length // (2 * member), 3)
        # Nobody knows whether a first sample was whole, unless there is some of another.
        if samples == 0 or length < 3 * member:
            with pytest.raises(DataError, match="truncated|no header") as raised:
                tar.scan(str(path), length, keep_truncated=True)
            assert "bad='skip'" not in str(raised.value)  # that has been said
            continue
        result = tar.scan(str(path), length, keep_truncated=True)
        assert result.keys.strings() == [str(i) for i in range(samples)]
        assert "truncated" in result.truncation and result.truncation.startswith(str(path))
        with pytest.raises(TruncatedFile):
            tar.scan(str(path), length)


def test_truncated_anywhere(tmp_path):
    path = data_sets.tar(tmp_path / "a.tar", [("0.jpg", b"x" * 700), ("1.jpg", b"y" * 700)])
    whole = path.read_bytes()
    end = 2 * (512 + 1024)  # then the mark of the end
    for length in (0, 1, 511, 512, 600, 1536, 1537, 2047, 2048, 2300, end, end + 511):
        path.write_bytes(whole[:length])
        with pytest.raises(DataError, match=r"a\.tar: (truncated|no header .*at byte 0)"):
            scan(path)
    path.write_bytes(whole[:end + 512])
    assert len(scan(path).offset) == 2


def test_a_damaged_header_is_not_taken_for_the_end(tmp_path):
    path = data_sets.tar(tmp_path / "a.tar", [("0.jpg", b"x"), ("1.jpg", b"y")])
    whole = bytearray(path.read_bytes())
    whole[1024 + 3] ^= 1
    path.write_bytes(whole)
    with pytest.raises(DataError, match="no header of a tar member at byte 1024"):
        scan(path)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4095), st.integers(0, 255)), min_size=1, max_size=6))
def test_damage_is_never_another_error(tmp_path_factory, changes):
    path = tmp_path_factory.mktemp("t") / "a.tar"
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        archive.addfile(special("ü.jpg", tarfile.REGTYPE))
        archive.addfile(special("b.jpg", tarfile.REGTYPE))
    whole = bytearray(path.read_bytes())
    for at, value in changes:
        whole[at] = value
        header = at // 512 * 512  # so that more than the header's own checksum is tried
        block = whole[header:header + 512]
        block[148:156] = b" " * 8
        whole[header + 148:header + 156] = b"%06o\0 " % sum(block)
    path.write_bytes(whole)
    try:
        result = scan(path)
    except DataError as error:
        assert str(path) in str(error)
    else:
        assert ((result.offset >= 0) & (result.offset + result.size <= len(whole))).all()


def test_compressed(tmp_path):
    path = tmp_path / "a.tar"
    path.write_bytes(gzip.compress(b"x" * 2000))
    with pytest.raises(DataError, match="it may be compressed"):
        scan(path)


def test_a_member_over_2_gib(tmp_path):
    info = tarfile.TarInfo("0.bin")
    info.size = (9 << 30) + 1  # more than an octal field holds
    header = info.tobuf(tarfile.GNU_FORMAT)
    path = tmp_path / "a.tar"
    with open(path, "wb") as file:
        file.write(header)
        file.truncate(512 + (info.size + 511) // 512 * 512 + 1024)
    result = scan(path)
    assert (result.offset.tolist(), result.size.tolist()) == ([[512]], [[info.size]])
