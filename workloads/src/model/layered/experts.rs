//! A mixture of experts as Hugging Face Transformers write Switch Transformers (Fedus et al., JMLR 2022): a router in fp32
//! sends each token to one expert, and the experts take theirs one after the other.
//!
//! The operators are those of `SwitchTransformersTop1Router` and `SwitchTransformersSparseMLP` (release 4.38) as PyTorch runs
//! them. A mask chooses tokens by their places, and how many those are the host waits for, twice for every expert and three times
//! on the way back, where PyTorch finds them again. An expert without tokens multiplies nothing, but its weights have a gradient
//! of zeros, which is added to the sum.

use crate::graph::Phase;
use crate::graph::operator::{Dtype, Layout, StreamClass};
use crate::model::draft::Draft;
use crate::model::names::{Name, name};

use super::layer::{Experts, Mlp};
use super::shape::Shape;
use super::tape::{Reverse, SINGLE, Tape, Value, in_bounds};

const PASS: StreamClass = StreamClass::Elementwise;
/// Bytes of an index.
const INDEX: u64 = 8;
/// Most experts: each has a score of operators of its own.
const COUNT_MAX: u32 = 24;

/// What a layer does with its tokens.
#[derive(Clone, Copy)]
struct Dealing {
    layer: Name,
    /// Tokens of all samples, and their width.
    rows: u64,
    width: u64,
    count: u64,
    /// Tokens of all samples that a chosen expert takes.
    taken: u64,
    has_capacity: bool,
    jitter: bool,
}

impl Tape<'_> {
    pub(super) fn experts(&mut self, from: Value, experts: &Experts) -> Result<Value, String> {
        let Shape::Tokens { tokens, width } = from.shape else {
            return Err(format!("`experts` take tokens, not {}", from.shape));
        };
        let chosen = experts.chosen.unwrap_or(experts.count);
        check(experts, chosen)?;
        let taken = tokens.div_ceil(chosen.into());
        let taken = experts.capacity.map_or(taken, |capacity| taken.min(capacity.into()));
        let dealing = Dealing {
            layer: self.layer("experts"),
            rows: self.on.rows(from.shape),
            width,
            count: experts.count.into(),
            taken: u64::from(self.on.micro_batch) * taken,
            has_capacity: experts.capacity.is_some(),
            jitter: experts.jitter && self.on.trains(),
        };
        let from = from.shared();
        let probability = self.route(&dealing, from);
        // Tokens that no expert takes pass by.
        let mut made = self.copied(name(dealing.layer, "tokens that pass by"), &[from.tensor], from.shape);
        self.back(made, move |reverse, gradient| reverse.give(from, gradient));
        let mlp = experts.mlp();
        for expert in 0..experts.count {
            let tokens = (expert < chosen).then_some(Shape::Tokens { tokens: taken, width });
            made = self.expert(dealing, expert, [from, made], &mlp, tokens)?;
        }
        Ok(self.gated(made, probability))
    }

    /// The probability with which each token goes to its expert, and its choice, one of the names of [`Dealing`].
    fn route(&mut self, dealing: &Dealing, from: Value) -> Value {
        let &Dealing { layer, rows, width, count, has_capacity, jitter, .. } = dealing;
        let of = move |what| name(layer, what);
        let (table, marks) = (SINGLE * rows * count, INDEX * rows * count);
        let (bytes, single) = (self.on.bytes(from.shape), SINGLE * rows * width);
        let cast = self.on.dtype != Dtype::Fp32;
        let (class, draft) = (StreamClass::Reduction, &mut self.draft);
        let mut input = from.tensor;
        if cast {
            input = of("router input");
            draft.stream(input, PASS, (bytes, single), &[from.tensor], &[(input, single)]);
        }
        let noise = of("noise");
        if jitter {
            draft.stream(noise, PASS, (0, single), &[], &[(noise, single)]);
            draft.stream(of("add noise"), PASS, (2 * single, single), &[input, noise], &[]);
        }
        let (logits, scores) = (of("router"), of("scores"));
        let product = (1, rows, count, width);
        draft.gemm(logits, product, (Dtype::Fp32, Layout::Forward), &[input], &[(logits, table)]);
        let softmax = (StreamClass::Softmax, rows);
        draft.walk(scores, softmax, (table, table), &[logits], &[(scores, table)]);
        let best = of("best expert");
        draft.stream(best, class, (table, INDEX * rows), &[scores], &[(best, INDEX * rows)]);
        let choice = dealing.choice();
        draft.stream(of("clear choice"), PASS, (0, marks), &[], &[(choice, marks)]);
        draft.stream(of("mark choice"), PASS, (INDEX * rows, INDEX * rows), &[best, choice], &[]);
        if has_capacity {
            let (order, fits) = (of("order of tokens"), of("has room"));
            draft.stream(order, class, (marks, marks), &[choice], &[(order, marks)]);
            let writes = [(fits, rows * count)];
            draft.stream(fits, PASS, (marks, rows * count), &[order], &writes);
            let traffic = (marks + rows * count, marks);
            draft.stream(of("keep choice"), PASS, traffic, &[choice, fits], &[]);
        }
        let probability = self.value(of("probability"), from.shape.with_channels(1));
        let (largest, draft) = (SINGLE * rows, &mut self.draft);
        let writes = [(probability.tensor, largest)];
        draft.stream(of("largest score"), class, (table, largest + INDEX * rows), &[scores], &writes);
        draft.stream(of("expert of token"), class, (marks, INDEX * rows), &[choice], &[]);
        self.back(probability, move |reverse, gradient| {
            let draft = &mut reverse.draft;
            let of_scores = of("scores gradient");
            draft.stream(of("clear scores gradient"), PASS, (0, table), &[], &[(of_scores, table)]);
            draft.stream(of_scores, PASS, (largest + INDEX * rows, largest), &[gradient, of_scores], &[]);
            let (of_logits, reads) = (of("router gradient"), [scores, of_scores]);
            draft.walk(of_logits, softmax, (2 * table, table), &reads, &[(of_logits, table)]);
            if from.tracked {
                let result = of("router input gradient");
                let (product, layout) = ((1, rows, width, count), (Dtype::Fp32, Layout::InputGradient));
                draft.gemm(result, product, layout, &[of_logits], &[(result, single)]);
                let mut given = result;
                if jitter {
                    let reads = [result, noise];
                    draft.stream(of("noise gradient"), PASS, (2 * single, single), &reads, &[]);
                }
                if cast {
                    given = of("router input gradient, cast");
                    draft.stream(given, PASS, (single, bytes), &[result], &[(given, bytes)]);
                }
                reverse.give(from, given);
            }
            let of_weights = of("router weight gradient");
            reverse.draft.within(Phase::BackwardWeight, |draft| {
                let (product, layout) = ((1, count, width, rows), (Dtype::Fp32, Layout::WeightGradient));
                let writes = [(of_weights, SINGLE * count * width)];
                draft.gemm(of_weights, product, layout, &[of_logits, input], &writes);
            });
            reverse.accumulate(of_weights, count * width);
        });
        self.parameters += count * width;
        probability
    }

    /// An expert with `tokens` of each sample, or none: what it makes of those `from` the layer's input takes their places in
    /// what was `made` so far.
    fn expert(
        &mut self,
        dealing: Dealing,
        expert: u32,
        [from, made]: [Value; 2],
        mlp: &Mlp,
        tokens: Option<Shape>,
    ) -> Result<Value, String> {
        let Dealing { layer, rows, .. } = dealing;
        let number = Name::of("of expert").numbered(expert);
        let of = move |what: &'static str| name(name(layer, what), number);
        let mask = of("mask");
        self.draft.stream(mask, PASS, (INDEX * rows, rows), &[dealing.choice()], &[(mask, rows)]);
        let here = Masked { mask, rows, taken: if tokens.is_some() { dealing.taken } else { 0 } };
        let bytes = self.on.bytes(from.shape);
        let places = here.find(&mut self.draft, of("tokens"));
        let result = match tokens {
            Some(tokens) => {
                let taken = self.value(of("input"), tokens);
                let size = self.on.bytes(tokens);
                let writes = [(taken.tensor, size)];
                let class = StreamClass::Permutation;
                self.draft.stream(
                    of("take tokens"),
                    class,
                    (2 * size, size),
                    &[from.tensor, places],
                    &writes,
                );
                self.back(taken, move |reverse, gradient| {
                    let whole = here.scatter_gradient(reverse, of, bytes, Some((gradient, size)));
                    reverse.give(from, whole);
                });
                Some(self.mlp(taken, mlp)?)
            }
            None => None,
        };
        let places = here.find(&mut self.draft, of("places"));
        let put = self.view(made, made.shape);
        if let Some(result) = result {
            let (size, reads) = (self.on.bytes(result.shape), [made.tensor, result.tensor, places]);
            self.draft.stream(of("put back"), StreamClass::Permutation, (2 * size, size), &reads, &[]);
        }
        let idle = if result.is_none() { mlp_parameters(dealing.width, mlp) } else { Vec::new() };
        self.parameters += idle.iter().sum::<u64>();
        self.back(put, move |reverse, gradient| {
            let places = here.find(&mut reverse.draft, of("gradient"));
            if let Some(result) = result {
                let (of_result, size) = (of("output gradient"), reverse.on.bytes(result.shape));
                let (class, reads) = (StreamClass::Permutation, [gradient, places]);
                reverse.draft.stream(of_result, class, (2 * size, size), &reads, &[(of_result, size)]);
                reverse.give(result, of_result);
            }
            let rest = of("gradient of the others");
            reverse.draft.stream(rest, PASS, (bytes, bytes), &[gradient], &[(rest, bytes)]);
            let places = here.find(&mut reverse.draft, of("gradient places"));
            if let Some(result) = result {
                let size = reverse.on.bytes(result.shape);
                reverse.draft.stream(of("clear gradient"), PASS, (0, size), &[rest, places], &[]);
            } else {
                for (n, parameters) in idle.into_iter().enumerate() {
                    let gradient = name(layer, Name::of("gradient").numbered(n as u64));
                    reverse.no_gradient(name(gradient, number), parameters);
                }
                let whole = here.scatter_gradient(reverse, of, bytes, None);
                reverse.give(from, whole);
            }
            reverse.give(made, rest);
        });
        Ok(put)
    }
}

impl Dealing {
    /// The tensor that says of each token and expert whether it goes there.
    fn choice(&self) -> Name {
        name(self.layer, "choice")
    }
}

/// Tokens behind a mask.
#[derive(Clone, Copy)]
struct Masked {
    mask: Name,
    /// Of all tokens, and of those.
    rows: u64,
    taken: u64,
}

impl Masked {
    /// The places of the tokens (`nonzero`): how many there are, which the host waits for, then where, sample and token apart.
    fn find(self, draft: &mut Draft, of: Name) -> Name {
        let (count, places) = (name(of, "count"), name(of, "places"));
        let (Self { mask, rows, taken }, found) = (self, 2 * INDEX * self.taken);
        draft.stream(count, StreamClass::Reduction, (rows, INDEX), &[mask], &[]).awaited = true;
        draft.stream(name(of, "prepare places"), PASS, (0, INDEX), &[], &[]);
        draft.stream(name(of, "select"), PASS, (rows, INDEX * taken), &[mask], &[(places, found.max(1))]);
        if taken > 0 {
            draft.stream(name(of, "split places"), PASS, (INDEX * taken, found), &[places], &[]);
        }
        places
    }

    /// The gradient of all tokens, zeros but for those `taken`, whose places are sorted before (`index_put` that accumulates).
    fn scatter_gradient(
        self,
        reverse: &mut Reverse<'_>,
        of: impl Fn(&'static str) -> Name,
        bytes: u64,
        gradient: Option<(Name, u64)>,
    ) -> Name {
        let whole = of("tokens gradient");
        let draft = &mut reverse.draft;
        draft.stream(of("clear tokens gradient"), PASS, (0, bytes), &[], &[(whole, bytes)]);
        let places = self.find(draft, of("gradient of tokens"));
        if let Some((gradient, size)) = gradient {
            let indices = INDEX * self.taken;
            for step in SORTED {
                draft.stream(of(step), PASS, (indices, indices), &[places], &[]);
            }
            let reads = [gradient, places, whole];
            draft.stream(
                of("add to tokens gradient"),
                StreamClass::Permutation,
                (2 * size, size),
                &reads,
                &[],
            );
        }
        whole
    }
}

/// What is done with the places of two dimensions before rows are added to them (`index_put_with_sort_kernel`).
const SORTED: [&str; 8] = [
    "wrap samples",
    "wrap tokens",
    "scale samples",
    "scale tokens",
    "flatten places",
    "divide places",
    "number places",
    "sort places",
];

impl Reverse<'_> {
    /// A gradient of zeros, which is added like any other.
    fn no_gradient(&mut self, name: Name, parameters: u64) {
        let bytes = parameters * self.on.dtype.bytes();
        self.draft.within(Phase::BackwardWeight, |draft| {
            draft.stream(name, PASS, (0, bytes), &[], &[(name, bytes)]);
        });
        self.accumulate(name, parameters);
    }
}

/// Parameters of the matrices and biases of an MLP.
fn mlp_parameters(width: u64, mlp: &Mlp) -> Vec<u64> {
    let inner = u64::from(mlp.width);
    let ups = if mlp.gated { 2 } else { 1 };
    let outputs = (0..ups).map(|_| inner).chain([width]);
    outputs.flat_map(|outputs| [Some(width * inner), mlp.bias.then_some(outputs)]).flatten().collect()
}

fn check(experts: &Experts, chosen: u32) -> Result<(), String> {
    let Experts { count, capacity, width, .. } = *experts;
    if !(1..=COUNT_MAX).contains(&count) {
        return Err(format!(
            "`experts` of a list are between 1 and {COUNT_MAX}, not {count}: each has operators of its own; for more, and for \
             several experts a token, use a transformer (`model: {{ transformer: {{ experts: ... }} }}`)"
        ));
    }
    if !(1..=count).contains(&chosen) {
        return Err(format!("of {count} experts 1 to {count} are chosen, not {chosen}"));
    }
    if capacity == Some(0) {
        return Err(
            "an expert has room for at least 1 token: write a larger `capacity`, or leave it out".to_owned()
        );
    }
    in_bounds("experts", &[count.into(), width.into()])
}
