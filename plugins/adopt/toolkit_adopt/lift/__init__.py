"""Lift: the train op of a graph that was built elsewhere, as a plugin in the loop of steps.

rules: how each placeholder is fed. nodes, order: a graph definition is cut, its state is ordered.
feeds: what a graph is fed. initial: variables as resources, and with which values they begin.
part: a cut that is fed and connected, a step, and predictions.
plugin, graph: the plugin `lift`, for a file .meta.
model_fn: the function of an Estimator as a plugin.
"""
