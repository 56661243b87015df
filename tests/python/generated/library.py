"""functools, itertools, operator, collections, random and numpy."""

from __future__ import annotations

from .rows import row

STATEMENTS = [
    row("partial", "$new_fn = functools.partial(helper, k=$k)\n$T = $new_fn($t).sin()"),
    row("partial with a tensor", "$new_fn = functools.partial(helper, $e)\ntable['partial'] = $new_fn\n$T = $new_fn($k)"),
    row(
        "lru_cache",
        """
        @functools.lru_cache(maxsize=None)
        def $new_fn(k, v=$t):
            LOG.append(k)
            $brk
            return k * 2
        $N = $new_fn($k) + $new_fn($k) + $new_fn(1)
        $N %= 7
        """,
    ),
    row("reduce", "$T = functools.reduce($fn, [$t, $u, $e]).sin()", fn=["operator.add", "lambda p, q: p * q", "torch.maximum"]),
    row("singledispatch", "LOG.append((kind_of($k), kind_of($t), kind_of('text')))"),
    row("chain", "$T = sum(itertools.chain([$t], ($u, $e))).sin()"),
    row("product", "$T = sum($t * p + q for p, q in itertools.product(range(2), (1, $k))).sin()"),
    row("accumulate", "$T = list(itertools.accumulate([$t, $u, $e], $fn))[-1].tanh()", fn=["operator.add", "lambda p, q: (p + q).sin()"]),
    row("zip_longest and starmap", "LOG.append([list(itertools.zip_longest('ab', range(3))), list(itertools.starmap(pow, [(2, 3), ($k, 2)]))])"),
    row("groupby", "LOG.append([(key, len(list(group))) for key, group in itertools.groupby([1, 1, $k, 2])])"),
    row("takewhile and count", "LOG.append(list(itertools.takewhile(lambda p: p < $k + 3, itertools.count(1))))"),
    row("tee", "$new_p, $new_q = itertools.tee(p * 2 for p in range(3))\nLOG.append((next($new_p), list($new_q)))"),
    row("operator functions", "$T = operator.add($e, operator.mul($t, $k)).cos()\nLOG.append(operator.itemgetter(0, -1)('abc'))"),
    row("attrgetter and methodcaller", "$T = operator.attrgetter('v')(holder) + operator.methodcaller('sin')($t)"),
    row("OrderedDict", "$new_o = collections.OrderedDict(p=$t, q=$k, r=$e)\n$new_o.move_to_end('p', last=$last)\nLOG.append(list($new_o))\n$T = $new_o['p'].sin()\ntable['ordered'] = $new_o", last=["True", "False"]),
    row("defaultdict", "$new_d = collections.defaultdict(list)\n$new_d['p'].append($t)\n$new_d[$k].append($j)\ntable['default'] = $new_d"),
    row("deque", "$new_q = collections.deque([$t, $u], maxlen=2)\n$new_q.append($e)\n$brk\n$new_q.rotate($k)\n$T = $new_q.popleft().sin()\ntable['deque'] = $new_q"),
    row("Counter", "$new_c = collections.Counter('abca')\n$new_c[$key] += $k\n$new_c.update('b')\nLOG.append(sorted($new_c.most_common(2)))", key=["'a'", "'z'"]),
    row("ChainMap", "$new_c = collections.ChainMap({'p': $k}, table)\n$new_c['r'] = $j\nLOG.append(($new_c['p'], $new_c['n'], 'r' in $new_c, 'r' in table))"),
    row("random numbers", "$N = $what", what=["random.randint(0, 4)", "random.choice([1, 2, $k])", "int(random.random() * 4)"]),
    row("random branch", "if random.random() < 0.5: $T = $e"),
    row("shuffle", "$new_l = [1, 2, $k]\nrandom.shuffle($new_l)\nLOG.append($new_l)"),
    row("numpy random", "$T = ($t + $what).sin()", what=["numpy.random.rand()", "torch.from_numpy(numpy.random.rand($t.numel()).astype('float32'))"]),
    row("numpy array", "$new_z = numpy.arange($t.numel())\n$T = ($t * torch.as_tensor($new_z) + float($new_z.mean())).tanh()"),
    row("sum, min, max", "LOG.append((sum([$k, 2]), min($k, $j), max([1, $k], key=lambda p: -p), abs(-$k), divmod($k, 2)))"),
    row("math", "$N = math.floor(math.sqrt($k * $k + 1)) % 5"),
    row("sorted tensors", "LOG.append(sorted([$t.sum().item() > 0, $u.sum().item() > 0]))"),
    row("dropout", "$T = torch.nn.functional.dropout($e, 0.5, training=bool($c))"),
]
