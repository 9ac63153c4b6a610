"""LMDBIO's strategies, rung by rung: what does each remove?"""
