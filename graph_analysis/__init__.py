"""Order and fusion of collectives from a framework's graph, in pure Python.

    graph = read_func_graph(concrete_function.graph)
    for region in analyze(graph, values={"HorovodSize": 2}).regions:
        print(region.plan.explain() if region.plan else region.reason)

TensorFlow is imported only by the readers of its files. See docs/how/graph-analysis.md."""

from graph_analysis.analysis import Analysis, Region, analyze
from graph_analysis.dict_reader import read_dict
from graph_analysis.graph import Collective, Graph, GraphError, Library
from graph_analysis.graph_def_reader import read_graph_def
from graph_analysis.plan import Bucket, Negotiated, Plan, Slot
from graph_analysis.plan_format import PlanError
from graph_analysis.tensorflow_reader import read_func_graph, read_graph

__all__ = [
    "Analysis", "Bucket", "Collective", "Graph", "GraphError", "Library", "Negotiated", "Plan",
    "PlanError", "Region", "Slot", "analyze", "read_dict", "read_func_graph", "read_graph",
    "read_graph_def",
]
