"""The pruning methods from their definitions, slowly and in float64, on transformers' model.

SparseGPT: Frantar and Alistarh, arXiv 2301.00774; Wanda: Sun et al., arXiv 2306.11695; the order of work (all
layers of a block see the block's unpruned inputs, its pruned outputs feed the next) is that of both authors'
drivers. Written for the tests, apart from the C++ under test.
"""
import torch


def keep_lowest_pruned(score, count):
    """[rows, n] -> True where kept; the `count` lowest scores of a row go, the lower column of a tie first."""
    order = torch.sort(score, dim=1, stable=True).indices
    return torch.ones_like(score, dtype=torch.bool).scatter_(1, order[:, :count], False)


def keep_by_pattern(score, pattern, whole_matrix):
    rows, cols = score.shape
    if pattern != "unstructured":
        keep, group = map(int, pattern.split(":"))
        return keep_lowest_pruned(score.reshape(-1, group), group - keep).reshape(rows, cols)
    if whole_matrix:  # everything up to the entry n / 2 of the sorted scores goes
        return score > score.flatten().sort().values[score.numel() // 2]
    return keep_lowest_pruned(score, cols // 2)


def magnitude(weight, gram, pattern):
    del gram
    return weight * keep_by_pattern(weight.abs(), pattern, whole_matrix=True)


def wanda(weight, gram, pattern):
    norms = gram.diagonal().float().sqrt()  # the authors' scores are float32
    return weight * keep_by_pattern(weight.float().abs() * norms, pattern, whole_matrix=False)


def sparsegpt(weight, gram, pattern, block=128, damping=0.01):
    w, cols = weight.clone(), weight.shape[1]
    h = gram + damping * gram.diagonal().mean() * torch.eye(cols, dtype=gram.dtype)
    factor = torch.linalg.cholesky(torch.cholesky_inverse(torch.linalg.cholesky(h)), upper=True)
    diagonal = factor.diagonal()
    group = 0 if pattern == "unstructured" else int(pattern.split(":")[1])
    for begin in range(0, cols, block):
        end = min(begin + block, cols)
        errors = torch.zeros(w.shape[0], end - begin, dtype=w.dtype)
        if not group:
            keep = keep_by_pattern(w[:, begin:end] ** 2 / diagonal[begin:end] ** 2, pattern, whole_matrix=True)
        for column in range(begin, end):
            if group and column % group == 0:
                span = slice(column, column + group)
                chosen = keep_by_pattern(w[:, span] ** 2 / diagonal[span] ** 2, pattern, whole_matrix=False)
            kept = chosen[:, column % group] if group else keep[:, column - begin]
            error = torch.where(kept, 0.0, w[:, column]) / diagonal[column]
            w[:, column + 1:end] -= error[:, None] * factor[column, column + 1:end]
            w[:, column] *= kept
            errors[:, column - begin] = error
        w[:, end:] -= errors @ factor[begin:end, end:]
    return w


METHODS = {"magnitude": magnitude, "wanda": wanda, "sparsegpt": sparsegpt}


@torch.no_grad()
def prune_blocks(model, windows, method, pattern, blocks):
    """Prunes the first `blocks` decoder blocks of a float32 Llama `model` with eager attention in place, on
    `windows` [sequences, context] of ids. Yields (name, new weight as float32, relative output error)."""
    length = windows.shape[1]
    hidden = [model.model.embed_tokens(window[None]) for window in windows]
    positions = torch.arange(length)[None]
    rotary = model.model.rotary_emb(hidden[0], positions)
    causal = torch.full((1, 1, length, length), torch.finfo(torch.float32).min).triu(1)

    def run(layer, x):
        out = layer(x, attention_mask=causal, position_embeddings=rotary, position_ids=positions)
        return out[0] if isinstance(out, tuple) else out

    for index in range(blocks):
        layer = model.model.layers[index]
        linears = {name: m for name, m in layer.named_modules() if isinstance(m, torch.nn.Linear)}
        grams = {name: 0.0 for name in linears}

        def observe(name):
            def hook(module, inputs):
                x = inputs[0].reshape(-1, module.in_features).double()
                grams[name] = grams[name] + x.T @ x
            return linears[name].register_forward_pre_hook(hook)

        hooks = [observe(name) for name in linears]
        for x in hidden:
            run(layer, x)
        for hook in hooks:
            hook.remove()
        for name, linear in linears.items():
            dense = linear.weight.double()
            pruned = METHODS[method](dense, grams[name], pattern)
            delta = dense - pruned
            error = ((delta @ grams[name]) * delta).sum() / ((dense @ grams[name]) * dense).sum()
            linear.weight.copy_(pruned.float())
            yield f"model.layers.{index}.{name}", linear.weight.clone(), error.sqrt().item()
        hidden = [run(layer, x) for x in hidden]
