import pytest


@pytest.fixture(autouse=True)
def _leave_no_session():
    """Close the interactive session that a script left open: Keras would take it in other tests."""
    yield
    from toolkit import tf

    session = tf.get_default_session()
    if isinstance(session, tf.InteractiveSession):
        session.close()
