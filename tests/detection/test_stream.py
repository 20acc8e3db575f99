"""Small things that a stream promises: times to the nearest sample, and blocks that the caller may use again."""

import numpy as np

from outlark.audio.sound import Reblock
from outlark.detection.decisions import at_rate
from outlark.segments import Segment


def test_times_go_to_the_nearest_sample_of_the_stream():
    (moved,) = at_rate([Segment(start=9, end=101, sample_rate=1000, label="A")], 300)
    assert (moved.start, moved.end, moved.sample_rate) == (3, 30, 300)  # 2.7 and 30.3


def test_the_caller_may_use_its_block_again():
    blocks, mine = Reblock(4), np.arange(3)
    assert list(blocks.push(mine)) == []
    mine[:] = 9
    np.testing.assert_array_equal(blocks.finish(), [0, 1, 2])
