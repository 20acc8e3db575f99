"""One BLAS thread while it is asked for, by one caller at a time."""

from outlark.maths.rows import blas_threads, one_blas_thread


def test_blas_is_held_to_one_thread_and_let_go():
    before = blas_threads()
    with one_blas_thread() as mine:
        assert mine
        assert blas_threads() == 1
        with one_blas_thread() as inner:
            assert not inner
            assert blas_threads() == 1
        assert blas_threads() == 1
    assert blas_threads() == before
