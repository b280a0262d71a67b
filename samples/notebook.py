"""The toolkit in a notebook: run it cell by cell where an editor knows `# %%`, or as a script.

A second call of a cell trains a new run; what it trained stays in the folder `runs`.
"""

# %% Examples: images uint8 [N, H, W, C] and the class of each, as any arrays
import numpy as np
from PIL import Image

import toolkit

digits = toolkit.open_data("classifier", {"data": "mnist5k"})
x, y = digits.split("train").take(slice(None))
x_test, y_test = digits.split("test").take(slice(None))
print(x.shape, x.dtype, np.bincount(y))

# %% Train; a bar shows the progress, and the last lines say how good the model is
run = toolkit.train("classifier", data=(x, y), steps=200, seed=1)
print(run)

# %% Metrics by name, their intervals, and the curves
print(run.metrics)
print(run.test["intervals"]["accuracy"])
print([record for record in run.history() if "accuracy" in record][-1])

# %% Evaluate on other examples
result = run.evaluate(data=(x_test, y_test))
print(result["metrics"]["accuracy"], "of", result["examples"], "examples")

# %% Predict: arrays, a picture, a file
print(run.predict(x_test[:5])["label"], y_test[:5])
Image.fromarray(x_test[0, :, :, 0]).resize((56, 56)).save("digit.png")
print(run.predict("digit.png")["probabilities"].round(2))

# %% A model for production: a SavedModel, compared with the trained model
print(run.export(run.folder + "-model")["outputs"])

# %% Several runs, best first
runs = [
    toolkit.train("classifier", data=(x, y), steps=50, learning_rate=rate, say=False)
    for rate in (0.0001, 0.001, 0.01)
]
for run in sorted(runs, key=lambda run: -run.metrics["accuracy"]):
    print(run.options.learning_rate, run.metrics["accuracy"])

# %% Later, in another process
with toolkit.open_trained(runs[0].folder) as run:
    print(run, run.predict(x_test[:5])["label"])
