"""Products by oneDNN are those of torch, and are left to torch where oneDNN does not apply."""

import pytest
import torch
from torch import nn

from statetrace.models.predict import evaluating
from statetrace.models.products import activated, fast_products, usable, usual_products

needs_onednn = pytest.mark.skipif(not usable(), reason="needs a processor with AVX-512")


class Calls(torch.utils._python_dispatch.TorchDispatchMode):
    """Counts the operators of oneDNN."""

    def __init__(self):
        super().__init__()
        self.number = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.number += "mkldnn" in str(function)
        return function(*args, **(kwargs or {}))


@pytest.fixture
def layer():
    torch.manual_seed(0)
    return nn.Linear(64, 48)


def products(layer, x):
    """With and without a bias, and as GPT-2 multiplies."""
    flat = x.reshape(-1, x.shape[-1])
    weight = layer.weight.t().contiguous()
    return [
        layer(x),
        nn.functional.linear(x, layer.weight),
        torch.addmm(layer.bias, flat, weight).view(*x.shape[:-1], 48),
    ]


@needs_onednn
@pytest.mark.parametrize("shape", [(5, 64), (3, 7, 64), (0, 64), (1, 1, 64)])
def test_numbers_are_those_of_torch(layer, shape):
    x = torch.randn(2, *shape)[0]
    with torch.no_grad():
        expected = products(layer, x)
        with fast_products(layer), Calls() as calls:
            for product, usual in zip(products(layer, x), expected, strict=True):
                torch.testing.assert_close(product, usual, atol=1e-5, rtol=1e-5)
        assert calls.number == 3
        part = torch.randn(9, 4, 64)[:, -1:]
        with fast_products(layer):
            torch.testing.assert_close(layer(part), layer(part.contiguous()))


@needs_onednn
@pytest.mark.parametrize("gelu", ["none", "tanh"])
def test_gelu_is_part_of_the_product(layer, gelu):
    x = 3 * torch.randn(50, 64)
    with torch.no_grad():
        expected = nn.functional.gelu(layer(x), approximate=gelu)
        torch.testing.assert_close(activated(x, layer, gelu), expected)
        with fast_products(layer), Calls() as calls:
            torch.testing.assert_close(activated(x, layer, gelu), expected, atol=1e-5, rtol=1e-5)
        assert calls.number == 1


@needs_onednn
def test_what_it_cannot_do_is_left_to_torch(layer):
    x = torch.randn(5, 64)
    with fast_products(layer), Calls() as calls:
        layer(x).sum().backward()
        assert layer.weight.grad is not None
        with torch.no_grad():
            layer.double()(x.double())
            layer.float()
            with usual_products():
                layer(x)
            nn.functional.linear(x, layer.weight, torch.ones(1).expand(48))
            torch.addmm(torch.ones(5, 48), x, layer.weight.t())
            nn.functional.linear(x[:, :0], layer.weight[:, :0], layer.bias)
        assert calls.number == 0
        with torch.no_grad():
            layer(x)
        assert calls.number == 1


@needs_onednn
def test_it_ends_with_its_block_also_after_an_error(layer):
    x = torch.randn(5, 64)
    with pytest.raises(ZeroDivisionError), evaluating(layer), evaluating(layer):
        raise ZeroDivisionError
    with torch.no_grad(), Calls() as calls:
        layer(x)
        assert calls.number == 0
        with evaluating(layer):
            with evaluating(layer):
                layer(x)
            layer(x)
        assert calls.number == 2
