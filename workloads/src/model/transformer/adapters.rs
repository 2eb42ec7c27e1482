//! Low-rank adapters of linear layers (LoRA, Hu et al., ICLR 2022): `y = W x + (a / r) B A x`, with
//! `A` of `r` rows and `B` of `r` columns. Adapters are trained; all other weights are frozen, so
//! that no gradient of theirs is computed, summed or kept.
//!
//! | ranks share `W` | `A` | `B` |
//! |---|---|---|
//! | by columns | whole, on the tokens of a rank | by columns |
//! | by rows | by rows | whole, on the tokens of a rank |
//! | not | whole | whole |
//!
//! as `tuners/lora/tp_layer.py` of Hugging Face PEFT has them. Both multiply in 16 bits where other
//! linear layers do in 8. Between are passes over memory: dropout of `x`, the scale, the addition
//! (`LoraLayer.forward` of PEFT, `ParallelLinearAdapter` of NeMo). A frozen embedding needs no
//! gradient; the gradient of the first layer's input is computed all the same
//! (`enable_input_require_grads`, which recomputation needs), 1 / (12 L) of a step too much
//! without.

use std::ops::Add;

use hw_models::settings::Count;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::draft::{Draft, Name};
use super::execution::{Execution, ShardedTransformer};
use super::linear::{Linear, Names, Side, linear_names};
use super::mlp::DenseMlp;
use super::names::names;
use super::{Layers, Transformer, attention};
use crate::graph::operator::StreamClass;

/// Low-rank adapters of linear layers (LoRA): they are trained, and the model itself is frozen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("examples" = [{ "rank": 16 }]))]
pub struct Adapters {
    /// Rank of the product of both matrices of an adapter.
    pub rank: Count<1, 65_536>,
    /// Linear layers that have an adapter; all when absent.
    #[serde(default = "all")]
    #[schemars(extend("examples" = [["query", "key", "value"]]))]
    pub layers: Vec<Adapted>,
    /// Dropout of what adapters multiply.
    #[serde(default)]
    pub dropout: bool,
}

/// A linear layer of attention or of an MLP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Adapted {
    /// Queries. Where one product makes queries, keys and values, all three have one adapter.
    Query,
    /// Keys.
    Key,
    /// Values.
    Value,
    /// Output of attention, on its way to the residual stream.
    Output,
    /// Gate of an MLP that has one. Where one product makes gate and what it gates, both have one
    /// adapter.
    Gate,
    /// Inner width of an MLP.
    Up,
    /// Output of an MLP.
    Down,
}

/// An adapter of a rank.
pub(super) struct Adapter {
    names: &'static Between,
    /// `A`.
    down: Linear,
    /// `B`.
    up: Linear,
    dropout: bool,
}

/// Parameters of the adapters of a rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdapterParameters {
    /// All of them.
    pub all: u64,
    /// Parameters among them that all tensor ranks hold.
    pub replicated: u64,
}

/// A product of a layer that can have an adapter.
pub(super) struct Adaptable {
    /// Linear layers that it is made of; it has an adapter if all of them have.
    layers: &'static [Adapted],
    down: &'static Names,
    up: &'static Names,
    between: &'static Between,
}

names! { $
    /// Names of the passes of an adapter, and of its tensors.
    Between by between_names;
    dropout: "" _ " adapter dropout",
    dropped: "" _ " adapter input, dropped",
    mask: "" _ " adapter dropout mask",
    scale: "scale " _ " adapter output",
    scaled: "" _ " adapter output, scaled",
    add: "add " _ " adapter output",
    scale_gradient: "" _ " adapter output gradient",
    dropout_gradient: "" _ " adapter dropout gradient",
    sum: "" _ " input gradient with adapter",
}

/// A product with its name.
macro_rules! adaptable {
    ($stem:literal, $layers:expr) => {
        &Adaptable {
            layers: &$layers,
            down: linear_names!(concat!($stem, " adapter A")),
            up: linear_names!(concat!($stem, " adapter B")),
            between: between_names!($stem),
        }
    };
}

pub(super) const QKV: &Adaptable = adaptable!("qkv", [Adapted::Query, Adapted::Key, Adapted::Value]);
pub(super) const QUERY: &Adaptable = adaptable!("query", [Adapted::Query]);
pub(super) const KEY: &Adaptable = adaptable!("key", [Adapted::Key]);
pub(super) const VALUE: &Adaptable = adaptable!("value", [Adapted::Value]);
pub(super) const PROJECTION: &Adaptable = adaptable!("projection", [Adapted::Output]);
pub(super) const GATED_UP: &Adaptable = adaptable!("mlp up", [Adapted::Gate, Adapted::Up]);
pub(super) const GATE: &Adaptable = adaptable!("mlp gate", [Adapted::Gate]);
pub(super) const UP: &Adaptable = adaptable!("mlp up", [Adapted::Up]);
pub(super) const DOWN: &Adaptable = adaptable!("mlp down", [Adapted::Down]);

impl Adapters {
    /// True if all of `layers` have adapters.
    fn have(&self, layers: &[Adapted]) -> bool {
        layers.iter().all(|layer| self.layers.contains(layer))
    }
}

impl Adapter {
    /// The adapter of a layer, if it has one.
    pub(super) fn of(layer: &Linear, on: &ShardedTransformer) -> Option<Self> {
        let adapters = on.execution().adapters.as_ref()?;
        let adaptable = layer.adapter.filter(|adaptable| adapters.have(adaptable.layers))?;
        let rank = adapters.rank.get();
        let [down, up] = match layer.side {
            Side::Columns => [Side::Whole, Side::Columns],
            Side::Rows => [Side::Rows, Side::Whole],
            Side::Whole => [Side::Whole; 2],
        };
        Some(Self {
            names: adaptable.between,
            down: Linear::new(adaptable.down, down, layer.inputs, rank).of_adapter(),
            up: Linear::new(adaptable.up, up, rank, layer.outputs).of_adapter(),
            dropout: adapters.dropout,
        })
    }

    /// Adds to what the weight gives, `product`, what the adapter gives, from the layer's `input`;
    /// `sum` names the result.
    pub(super) fn forward(
        self,
        draft: &mut Draft,
        on: &ShardedTransformer,
        input: Name,
        [product, sum]: [Name; 2],
    ) {
        let (names, class, bytes) = (self.names, StreamClass::Elementwise, self.up.output_bytes(on));
        let mut input = input;
        if self.dropout {
            let elements = self.inputs(on);
            let half = on.bytes(elements);
            let writes = [(names.dropped, half), (names.mask, elements)];
            draft.stream(names.dropout, class, (half, half + elements), &[input], &writes);
            input = names.dropped;
        }
        let narrow = self.down.forward(draft, on, input);
        let output = self.up.forward(draft, on, narrow);
        if on.execution().fusion.adapters {
            draft.stream(names.add, class, (2 * bytes, bytes), &[product, output], &[(sum, bytes)]);
            return;
        }
        draft.stream(names.scale, class, (bytes, bytes), &[output], &[(names.scaled, bytes)]);
        draft.stream(names.add, class, (2 * bytes, bytes), &[product, names.scaled], &[(sum, bytes)]);
    }

    /// From the `gradient` of the layer's output to the part of that of its `input` that comes
    /// through the adapter.
    pub(super) fn backward(
        self,
        draft: &mut Draft,
        on: &ShardedTransformer,
        input: Name,
        gradient: Name,
    ) -> Name {
        let (names, class, bytes) = (self.names, StreamClass::Elementwise, self.up.output_bytes(on));
        let (elements, dropout) = (self.inputs(on), self.dropout);
        let writes = [(names.scale_gradient, bytes)];
        draft.stream(names.scale_gradient, class, (bytes, bytes), &[gradient], &writes);
        let narrow = self.down.result(on);
        let gradient = self.up.backward(draft, on, narrow, names.scale_gradient);
        let input = if dropout { names.dropped } else { input };
        let gradient = self.down.backward(draft, on, input, gradient);
        if !dropout {
            return gradient;
        }
        let half = on.bytes(elements);
        let (reads, writes) = ([gradient, names.mask], [(names.dropout_gradient, half)]);
        draft.stream(names.dropout_gradient, class, (half + elements, half), &reads, &writes);
        names.dropout_gradient
    }

    /// Names the gradient of the layer's input with the part through the adapter.
    pub(super) const fn sum(&self) -> Name {
        self.names.sum
    }

    /// Elements of what it multiplies.
    fn inputs(&self, on: &ShardedTransformer) -> u64 {
        self.down.tokens(on) * self.down.inputs
    }

    fn parameters(&self) -> AdapterParameters {
        let of = |layer: &Linear| AdapterParameters {
            all: layer.weights(),
            replicated: if layer.side == Side::Whole { layer.weights() } else { 0 },
        };
        of(&self.down) + of(&self.up)
    }
}

impl Add for AdapterParameters {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { all: self.all + other.all, replicated: self.replicated + other.replicated }
    }
}

impl ShardedTransformer {
    /// True if weights of the model are trained, and not adapters of them.
    pub(super) const fn trains_weights(&self) -> bool {
        self.execution().adapters.is_none()
    }

    /// Parameters of the adapters of so many layers on a rank; none where weights are trained.
    pub(super) fn adapters(&self, layers: Layers) -> Option<AdapterParameters> {
        self.execution().adapters.as_ref()?;
        let of = |layers: Vec<Linear>| {
            let adapters = layers.iter().filter_map(|layer| Adapter::of(layer, self));
            adapters.fold(AdapterParameters::default(), |sum, adapter| sum + adapter.parameters())
        };
        let (attention, mlp) = (of(attention::layers(self)), of(DenseMlp::of(self).layers(self)));
        let (all, dense) = (u64::from(layers.dense) + u64::from(layers.experts), u64::from(layers.dense));
        Some(AdapterParameters {
            all: all * attention.all + dense * mlp.all,
            replicated: all * attention.replicated + dense * mlp.replicated,
        })
    }
}

/// Layers that can have adapters as they are executed.
pub(super) fn check(
    model: &Transformer,
    execution: &Execution,
    wrong: &mut impl FnMut(&'static str, String),
) {
    let Some(adapters) = &execution.adapters else { return };
    if model.encoder.is_some() || model.latent.is_some() {
        let problem =
            "adapters are modelled for decoders whose queries, keys and values come from the residual stream";
        wrong("adapters", format!("{problem}: remove them, or train another model"));
        return;
    }
    let gated = model.mlp_branches() > 1;
    if !adapters.layers.iter().any(|&layer| gated || layer != Adapted::Gate) {
        wrong("adapters.layers", "no layer has an adapter: list some, or leave it out for all".to_owned());
    }
    let mlp = [Adapted::Gate, Adapted::Up, Adapted::Down];
    if model.experts.is_some() && adapters.layers.iter().any(|layer| mlp.contains(layer)) {
        let problem = "adapters of experts are not modelled: write `layers: [query, key, value, output]`";
        wrong("adapters.layers", problem.to_owned());
    }
    if adapters.rank.get() > u64::from(model.hidden) {
        let (rank, hidden) = (adapters.rank.get(), model.hidden);
        wrong("adapters.rank", format!("{rank} is more than the width of the model: use at most {hidden}"));
    }
    let fusion = &execution.fusion;
    let joined = [
        (QKV.layers, "queries, keys and values", fusion.query_key_value),
        (GATED_UP.layers, "a gate and what it gates", fusion.gate && gated),
    ];
    for (layers, words, _) in joined.into_iter().filter(|&(.., is_joined)| is_joined) {
        let listed = layers.iter().filter(|layer| adapters.layers.contains(layer)).count();
        if (1..layers.len()).contains(&listed) {
            let problem = format!(
                "{words} are one product, which has one adapter: list all of them or none, or separate them by \
                 `software: {{ layers: hugging-face }}`"
            );
            wrong("adapters.layers", problem);
        }
    }
}

/// All linear layers of a layer of the model.
fn all() -> Vec<Adapted> {
    use Adapted::{Down, Gate, Key, Output, Query, Up, Value};
    vec![Query, Key, Value, Output, Gate, Up, Down]
}
