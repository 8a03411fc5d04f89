"""Constant vectors: their values, cached or filled in a compiled graph."""

import torch

from patchword.layers.dense.constants import constant

CPU = torch.device("cpu")


def test_values_dtype_and_device():
    found = constant((0.1, 2.0), torch.bfloat16, CPU)
    assert found.dtype == torch.bfloat16
    assert torch.equal(found, torch.tensor([0.1, 2.0], dtype=torch.bfloat16))


def test_a_vector_is_made_once_and_is_usable_in_training():
    with torch.inference_mode():
        first = constant((3.0, 4.0), torch.float32, CPU)
    assert constant((3.0, 4.0), torch.float32, CPU) is first
    assert constant((3.0, 4.0), torch.float64, CPU) is not first
    weight = torch.ones(2, requires_grad=True)
    (weight * first).sum().backward()
    assert torch.equal(weight.grad, first)


def test_a_compiled_graph_has_no_copy_from_the_host():
    graphs = []

    def keep(graph, _):
        graphs.append(graph)
        return graph

    def scaled(x):
        return x * constant((0.1, 0.2), x.dtype, x.device)

    torch._dynamo.reset()
    given = torch.ones(3, 2)
    assert torch.equal(torch.compile(scaled, fullgraph=True, backend=keep)(given), scaled(given))
    targets = [str(node.target) for node in graphs[0].graph.nodes]
    assert not any("torch.tensor" in target or "_tensor_constant" in target for target in targets), targets
