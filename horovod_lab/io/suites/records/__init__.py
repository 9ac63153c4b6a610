"""Small records out of the page cache: what does a pipeline itself cost?"""
