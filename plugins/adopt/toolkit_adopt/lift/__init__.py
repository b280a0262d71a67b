"""Lift: the train op of a graph that was built elsewhere, as a plugin in the loop of steps.

rules: how each placeholder is fed. options: those of the plugin `lift`.
nodes, refs, order: a graph definition is cut, its variables become resources, its state is ordered.
feeds, initial: what a graph is fed, with which values it begins.
part: a cut that is fed and connected, a step, and predictions.
plugin, graph: the plugin `lift`, for a file .meta.
model_fn: the function of an Estimator as a plugin.
"""
