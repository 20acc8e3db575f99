"""The review page (`outlark review`): annotate, train, look, confirm and discover in a local web page.

`store.py` keeps the project, `tiles.py` and `media.py` what is drawn and heard, `training.py`, `clusters.py` and
`queues.py` what the detector says, `api/` the requests, `guard.py` who may ask, `page/` the page.
"""
