"""What the strategies of LMDBIO's ladder are made of: LMDB's pages, and ranks that talk."""
