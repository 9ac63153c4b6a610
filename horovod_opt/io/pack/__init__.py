"""A pack: a folder of many files as a few plain tars, and one index of all of them (FanStore,
arXiv:1809.10799, 5.2: partitions and their metadata). docs/use/io-files.md is the page."""
