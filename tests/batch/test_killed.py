"""Nothing is lost: a run that is killed and resumed leaves the bytes of one that was left alone."""

from tests.batch.kill_and_resume import kill_and_resume


def test_killed_at_random_moments(tmp_path):
    outcome = kill_and_resume(tmp_path, n_files=24, n_kills=5, seed=20261116, jobs=1)
    assert outcome.differences == []
    assert outcome.kills == 5
    assert any(0 < lines < 30 for lines in outcome.lines_at_kill)  # of 24 recordings, and of parts
