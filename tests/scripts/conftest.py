import pytest

from tests.models.small import save_small


@pytest.fixture
def tiny(saved):
    """The folder of a tiny random model with the real tokenizer."""
    return saved(save_small, initializer_range=0.3)
