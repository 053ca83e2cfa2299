"""The pruning methods from their definitions, slowly and in float64, on transformers' model.

SparseGPT: Frantar and Alistarh, arXiv 2301.00774; Wanda: Sun et al., arXiv 2306.11695; RIA: Zhang et al., ICLR 2024;
ADMM: Boza, arXiv 2401.02938; ALPS: Meng et al., arXiv 2406.07831; one-swap refinement: Zimmer et al., arXiv
2512.10922; block reconstruction: Guo et al., arXiv 2402.12419. The order of work (all layers of a block see the block's unpruned inputs, its pruned outputs feed
the next) is that of the authors' drivers. Written for the tests, apart from the C++ under test.
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


def ria(weight, gram, pattern):
    magnitude = weight.abs()
    activation = gram.diagonal().sqrt() ** 0.5
    score = (magnitude / magnitude.sum(0) + magnitude / magnitude.sum(1, keepdim=True)) * activation
    return weight * keep_by_pattern(score.float(), pattern, whole_matrix=True)


def admm(weight, gram, pattern, damping=0.1, rho=1.0, iterations=20, mask_steps=15):
    norm = gram.diagonal().sqrt()
    g = gram / norm / norm[:, None] + damping * torch.eye(len(norm), dtype=gram.dtype)
    w0 = weight * norm
    inverse = torch.linalg.inv(g + rho * torch.eye(len(norm), dtype=gram.dtype))
    w, u = w0, torch.zeros_like(w0)
    for t in range(iterations):
        if t < mask_steps:
            score = (w + u).abs().float()
            share = 0.5 * (1 - (1 - (t + 1) / mask_steps) ** 3)
            if pattern != "unstructured":
                keep = keep_by_pattern(score, pattern, whole_matrix=False)
                sparsity = 1 - int(pattern.split(":")[0]) / int(pattern.split(":")[1])
                share *= sparsity / 0.5
                score = score.masked_fill(keep, torch.inf)
            mask = score > score.flatten().sort().values[int(score.numel() * share)]
            if pattern != "unstructured" and t == mask_steps - 1:
                mask = keep
        z = (w + u) * mask
        u = u + w - z
        w = (w0 @ g + rho * (z - u)) @ inverse
    return (w + u) * mask / norm


def best_for_mask(weight, gram, keep):
    """Each row's kept weights that leave the least output error: its normal equations, solved."""
    result = torch.zeros_like(weight)
    for row, kept in enumerate(keep):
        part = gram[kept]
        result[row, kept] = torch.linalg.solve(part[:, kept], part @ weight[row])
    return result


def conjugate_gradients(weight, gram, keep, x, steps):
    """`steps` of them towards best_for_mask(), each row for itself."""
    x = x * keep
    residual = ((weight - x) @ gram) * keep
    direction = residual
    for _ in range(steps):
        product = (direction @ gram) * keep
        alpha = (residual ** 2).sum(1, True) / (direction * product).sum(1, True)
        x = x + alpha * direction
        new = residual - alpha * product
        direction = new + (new ** 2).sum(1, True) / (residual ** 2).sum(1, True) * direction
        residual = new
    return x


def alps(weight, gram, pattern, damping=0.01, rho=0.1, iterations=300, cg_steps=10):
    g = gram + damping * gram.diagonal().mean() * torch.eye(len(gram), dtype=gram.dtype)
    norm = g.diagonal().sqrt()
    g = g / norm / norm[:, None]
    w0 = weight * norm
    largest = lambda v: keep_by_pattern(v.abs().float(), pattern, whole_matrix=True)  # noqa: E731
    d, v = w0 * largest(w0), torch.zeros_like(w0)
    last, moving = largest(w0), False
    for i in range(iterations):
        b = torch.linalg.solve(g + rho * torch.eye(len(g), dtype=g.dtype), (w0 @ g - v + rho * d).T).T
        mask = largest(b + v / rho)
        d = (b + v / rho) * mask
        v = v + rho * (b - d)
        if (i + 1) % 3:
            continue
        changed = (mask != last).sum().item()
        share = changed / mask.sum().item()
        last = mask
        if share > 0.005:
            rho, moving = rho * (1.3 if share > 0.1 else 1.2), True
        elif moving and changed:
            rho *= 1.1
        elif moving:
            break
        else:
            rho /= 5
            if changed:
                b, d, v = w0, w0 * largest(w0), torch.zeros_like(w0)
        if i >= 30 and share < 0.0003:
            break
    return conjugate_gradients(w0, g, largest(b), b, cg_steps) / norm


def swap(weight, gram, keep, current, pattern, update, sweeps=50):
    """One-swap refinement of `current` (zeros where not kept): all rows side by side, groups from left to right."""
    group = int(pattern.split(":")[1])
    norm = gram.diagonal().sqrt()
    g, dense, v, keep = gram / norm / norm[:, None], weight * norm, current * norm, keep.clone()
    gradient = (dense - v) @ g
    rows = torch.arange(len(v))
    swaps = 0
    for _ in range(sweeps):
        before = swaps
        for begin in range(0, v.shape[1], group):
            span = slice(begin, begin + group)
            while True:
                out, into = v[:, span, None], keep[:, span]
                pull = gradient[:, None, span] + out * g[span, span]  # [rows, kept, pruned]
                x = pull if update else dense[:, None, span].expand_as(pull)
                change = 2 * out * gradient[:, span, None] + out ** 2 + x ** 2 - 2 * x * pull
                change[~(into[:, :, None] & ~into[:, None, :])] = torch.inf
                best, place = change.flatten(1).min(1)
                entering = x.flatten(1)[rows, place]
                leaving = v[rows, begin + place // group]
                gains = best < -1e-10 * (leaving ** 2 + entering ** 2)
                if not gains.any():
                    break
                r, u, p = rows[gains], begin + place[gains] // group, begin + place[gains] % group
                gradient[r] += leaving[gains, None] * g[u] - entering[gains, None] * g[p]
                v[r, u], v[r, p] = 0.0, entering[gains]
                keep[r, u], keep[r, p] = False, True
                swaps += len(r)
        if swaps == before:
            break
    return v / norm, keep, swaps


def refine(weight, gram, pruned, pattern, update, damping=0.01, rounds=8):
    keep = keep_by_pattern(pruned.float().abs(), pattern, whole_matrix=False)
    if not update:
        return weight * swap(weight, gram, keep, weight * keep, pattern, update)[1]
    gram = gram + damping * gram.diagonal().mean() * torch.eye(len(gram), dtype=gram.dtype)
    for _ in range(rounds):
        best = best_for_mask(weight, gram, keep)
        _, keep, swaps = swap(weight, gram, keep, best, pattern, update)
        if swaps == 0:
            break
    return best_for_mask(weight, gram, keep)


def mersenne_twister_64(seed):
    """The numbers of MT19937-64 (Nishimura and Matsumoto), as C++'s std::mt19937_64 gives them."""
    mask = 2 ** 64 - 1
    state = [seed & mask]
    for i in range(1, 312):
        state.append((6364136223846793005 * (state[-1] ^ (state[-1] >> 62)) + i) & mask)
    while True:
        for i in range(312):
            x = (state[i] & ~0x7FFFFFFF & mask) | (state[(i + 1) % 312] & 0x7FFFFFFF)
            state[i] = state[(i + 156) % 312] ^ (x >> 1) ^ (0xB5026F5AA96619E9 if x & 1 else 0)
        for y in state:
            y ^= (y >> 29) & 0x5555555555555555
            y ^= (y << 17) & 0x71D67FFFEDA60000
            y ^= (y << 37) & 0xFFF7EEE000000000
            yield y ^ (y >> 43)


def reconstruct(run, linears, inputs, targets, index, epochs, rate, seed=0):
    """Trains the non-zeros of `linears` so that run(input) is near the target, a window a step; the last of fewer than
    eight windows is held out, else every eighth. Returns the held-out error before and after, and the epochs."""
    count = len(inputs)
    held_out = [i for i in range(count) if (i == count - 1 if count < 8 else i % 8 == 7)]
    order = [i for i in range(count) if i not in held_out]
    random = mersenne_twister_64(seed * 1000003 + index)
    weights = [linear.weight for linear in linears]
    masks = [(weight != 0).float() for weight in weights]
    adam = torch.optim.Adam(weights, lr=rate)

    def loss(i):
        return (((run(inputs[i]) - targets[i]) ** 2).sum(-1) / (targets[i] ** 2).sum(-1)).mean()

    def error():
        with torch.no_grad():
            return (sum(loss(i).item() for i in held_out) / len(held_out)) ** 0.5

    best, before, kept = error(), error(), [weight.detach().clone() for weight in weights]
    step, epoch, best_epoch = 0, 0, 0
    while epoch < epochs and epoch - best_epoch < 2:
        for i in range(len(order) - 1, 0, -1):
            j = next(random) % (i + 1)
            order[i], order[j] = order[j], order[i]
        for i in order:
            adam.param_groups[0]["lr"] = rate * (1 - step / (epochs * len(order)))
            step += 1
            with torch.enable_grad():
                adam.zero_grad()
                loss(i).backward()
            for weight, mask in zip(weights, masks):
                weight.grad *= mask
            adam.step()
        epoch += 1
        now = error()
        if now < best:
            best, best_epoch, kept = now, epoch, [weight.detach().clone() for weight in weights]
    for weight, values in zip(weights, kept):
        weight.copy_(values)
    return before, best, epoch


METHODS = {"magnitude": magnitude, "wanda": wanda, "ria": ria, "sparsegpt": sparsegpt, "admm": admm, "alps": alps}


@torch.no_grad()
def prune_blocks(model, windows, method, pattern, blocks, refinement="none", reconstruction=None):
    """Prunes the first `blocks` decoder blocks of a float32 Llama `model` with eager attention in place, on
    `windows` [sequences, context] of ids. Yields (name, new weight as float32, relative output error). With
    `reconstruction`, a dictionary with reconstruct()'s epochs and rate, the weights are those before it, and
    (its result, {name: weight}) follows them for each block."""
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
        targets = [run(layer, x) for x in hidden]
        for hook in hooks:
            hook.remove()
        for name, linear in linears.items():
            dense = linear.weight.double()
            pruned = METHODS[method](dense, grams[name], pattern)
            if refinement != "none":
                pruned = refine(dense, grams[name], pruned, pattern, refinement == "weights")
            delta = dense - pruned
            error = ((delta @ grams[name]) * delta).sum() / ((dense @ grams[name]) * dense).sum()
            linear.weight.copy_(pruned.float())
            yield f"model.layers.{index}.{name}", linear.weight.clone(), error.sqrt().item()
        if reconstruction:
            result = reconstruct(lambda x: run(layer, x), linears.values(), hidden, targets, index, **reconstruction)
            yield result, {f"model.layers.{index}.{name}": m.weight.clone() for name, m in linears.items()}
        hidden = [run(layer, x) for x in hidden]
