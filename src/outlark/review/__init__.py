"""The review page: annotate, train, look, confirm and discover in a local web page (`outlark review`).

`store.py` keeps the project, `media.py`, `spectrogram.py` and `curves.py` what is drawn and heard, `training.py`,
`clusters.py` and `queues.py` what the detector says, `api/` the requests, `guard.py` who may ask, `page/` the page.
"""
