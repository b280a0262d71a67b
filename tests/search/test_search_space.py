"""`--vary`: which texts are which dimensions, and which get one sentence."""

import pytest

from toolkit.errors import UsageError
from toolkit.options import merge, resolve
from toolkit.plugins import Plugins
from toolkit.search.definition import Dimension
from toolkit.search.space import parse_space


def parse(*texts):
    options = Plugins.load("classifier").options()

    def check(name, value):
        return resolve(options, flags={name: value}).options.model_dump(mode="json")[name]

    return parse_space(texts, merge(options), check)


@pytest.mark.parametrize(
    "text, dimension",
    [
        ("learning_rate=1e-4..1e-2:log", Dimension("learning_rate", "float", 1e-4, 1e-2, 0, True)),
        ("--learning-rate=.1..2", Dimension("learning_rate", "float", 0.1, 2.0)),
        ("dropout=0..0.5:step=0.1", Dimension("dropout", "float", 0.0, 0.5, 0.1)),
        # Of a range with steps, its values have to be allowed: 1 is none of them.
        ("dropout=0..1:step=0.3", Dimension("dropout", "float", 0.0, 1.0, 0.3)),
        ("batch_size=16..64", Dimension("batch_size", "int", 16, 64, 1)),
        ("batch_size=1e1..1e3:log", Dimension("batch_size", "int", 10, 1000, 0, True)),
        ("batch_size=16..64:step=16", Dimension("batch_size", "int", 16, 64, 16)),
        ("network=mlp,cnn", Dimension("network", "choice", choices=("mlp", "cnn"))),
        ("normalize=yes,no", Dimension("normalize", "choice", choices=(True, False))),
        ("dropout=none,0.5", Dimension("dropout", "choice", choices=(None, 0.5))),
        ("hidden=64|128,64", Dimension("hidden", "choice", choices=([64], [128, 64]))),
        ("class_weights=none|1,2", Dimension("class_weights", "choice", choices=("none", "1,2"))),
        ("augment=digits,none", Dimension("augment", "choice", choices=("digits", "none"))),
        (
            "optimizer_args=beta1=0.5|beta1=0.9,beta2=1",
            Dimension(
                "optimizer_args", "choice", choices=({"beta1": 0.5}, {"beta1": 0.9, "beta2": 1.0})
            ),
        ),
    ],
)
def test_a_text_is_a_dimension(text, dimension):
    assert parse(text) == (dimension,)
    assert parse(f"{dimension.name}={dimension}") == (dimension,)


@pytest.mark.parametrize(
    "text, message",
    [
        ("lerning_rate=1..2", "no option 'lerning_rate'"),
        ("learning_rate", "has no values"),
        ("learning_rate=0.1", "has one value"),
        ("learning_rate=0.1,1e-1", "has the value 0.1 twice"),
        ("learning_rate=1..1", "does not begin below its end"),
        ("learning_rate=0..1", "should be greater than 0"),
        ("dropout=0..1", "less than or equal to 0.9"),
        ("dropout=0..0.5:log", "logarithmic, but begins at 0"),
        ("learning_rate=1..2:step=0", "has the step 0, expected one above 0"),
        ("learning_rate=1..2:step=3", "no longer than the range"),
        ("learning_rate=1..2:step=1e-9", "has 1e\\+09 values, at most 100,000"),
        ("learning_rate=1..2:log:step=1", "no range of numbers"),
        ("learning_rate=1..1e999", "too large"),
        ("batch_size=1.5..4", "takes whole numbers"),
        ("network=1..3", "not one number"),
        ("network=mlp,cn", "should be 'auto', 'mlp', 'cnn' or 'resnet'"),
        ("network=mlp,,cnn", "nothing between two separators"),
        ("hidden=128,256", "has one value"),
        ("data=a,b", "cannot vary: it chooses which examples are tested"),
        ("seed=1,2", "cannot vary: a seed is no choice"),
        ("steps=1,2", "the budget sets the length"),
        ("log_steps=1,2", "changes no number of a run"),
        ("best_metric=a,b", "what the value of a trial means"),
        ("plugin=a,b", "a study has one plugin"),
        ("network=mlp,cnn network=cnn,resnet", "is set twice"),
    ],
)
def test_a_wrong_text_gets_one_sentence(text, message):
    with pytest.raises(UsageError, match=message):
        parse(*text.split())
