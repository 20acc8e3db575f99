"""The review page (`outlark review`): annotate, train, look, confirm and discover in a local web page.

`store.py` keeps the project; `tiles.py` and `media.py` have what is drawn and played; `training.py`, `clusters.py` and
`queues.py` what the detector says; `api/` answers requests; `serving.py` serves and protects them; `page/` is the page.
"""
