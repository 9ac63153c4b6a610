"""Libraries are put where a build wants them."""

from __future__ import annotations

from building import native


def test_a_library_that_is_in_use_is_not_written_to(tmp_path):
    old, new = tmp_path / "library.so", tmp_path / "new.so"
    old.write_bytes(b"old")
    new.write_bytes(b"the new one")
    with old.open("rb") as loaded:
        native.put(str(new), str(old))
        assert loaded.read() == b"old"
    assert old.read_bytes() == b"the new one"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["library.so", "new.so"]
