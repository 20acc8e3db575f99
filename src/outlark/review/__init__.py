"""The review page (`outlark review`): annotate, train, look, confirm and discover in a local web page.

`opening` makes a project of what was given. `store` keeps its file, `project` knows its rows, `identity` tells which
recording a file is. `changes` are what people do, `queues` what they review, `overview` what else the page shows,
`training`, `runs` and `clusters` what models find, `recordings` and `tiles` what is drawn and played, `tables` what is
imported and exported. `serving` serves and protects it all; `page/` is the page. Each module answers the
requests of its topic.
"""
