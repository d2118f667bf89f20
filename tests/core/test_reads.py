"""What is noted of the files that an author's code reads."""

from trtdsl.core.reads import noted


def test_folders_of_which_the_same_was_read_are_told_apart(tmp_path):
    """Both are empty when the inner one ends, and the outer one is not when it ends."""
    outer, inner = tmp_path / "outer", tmp_path / "inner"
    with noted(outer) as reads:
        with noted(inner):
            pass
        reads.note(str(tmp_path), None)
    with noted(outer) as again:
        assert again is reads
