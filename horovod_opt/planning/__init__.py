"""What a graph or an optimizer reduces, on its way to graph_analysis and to a native library."""
