//! RMSNorm in operators, as Hugging Face Transformers write it for T5: `weight * (x * rsqrt(mean(x.float()^2) + eps))`, and what
//! autograd makes of it; fp32 up to the weight, a kernel an operator.

use crate::graph::operator::{Dtype, StreamClass};
use crate::model::names::{Name, name};

use super::tape::{SINGLE, Tape, Value};

const PASS: StreamClass = StreamClass::Elementwise;
const SUM: StreamClass = StreamClass::Reduction;

impl Tape<'_> {
    /// Over rows of the channels of `from`.
    pub(super) fn rms_in_operators(&mut self, layer: Name, from: Value) -> Value {
        let of = move |what| name(layer, what);
        let (rows, channels) = (self.on.rows(from.shape), from.shape.channels());
        let (each, bytes, single) = (SINGLE * rows, self.on.bytes(from.shape), SINGLE * rows * channels);
        let cast = self.on.dtype != Dtype::Fp32;
        self.parameters += channels;
        let to = self.value(layer, from.shape);
        let draft = &mut self.draft;
        let mut input = from.tensor;
        if cast {
            input = of("input in fp32");
            draft.stream(input, PASS, (bytes, single), &[from.tensor], &[(input, single)]);
        }
        let (squares, mean, factor, scaled) = (of("squares"), of("mean"), of("factor"), of("scaled"));
        draft.stream(squares, PASS, (single, single), &[input], &[(squares, single)]);
        draft.stream(mean, SUM, (single, each), &[squares], &[(mean, each)]);
        draft.stream(of("add epsilon"), PASS, (each, each), &[mean], &[]);
        draft.stream(factor, PASS, (each, each), &[mean], &[(factor, each)]);
        draft.stream(scaled, PASS, (single + each, single), &[input, factor], &[(scaled, single)]);
        let mut normed = scaled;
        if cast {
            normed = of("cast back");
            draft.stream(normed, PASS, (single, bytes), &[scaled], &[(normed, bytes)]);
        }
        draft.stream(layer, PASS, (bytes, bytes), &[normed], &[(to.tensor, bytes)]);
        self.back(to, move |reverse, gradient| {
            let draft = &mut reverse.draft;
            let (products, mut of_scaled) = (of("gradient times input"), of("gradient before weight"));
            draft.stream(of_scaled, PASS, (bytes, bytes), &[gradient], &[(of_scaled, bytes)]);
            draft.stream(products, PASS, (2 * bytes, bytes), &[gradient, normed], &[(products, bytes)]);
            reverse.reduced(layer, "weight gradient", &[products], bytes, (channels, 1));
            let draft = &mut reverse.draft;
            if cast {
                let half = of_scaled;
                of_scaled = of("gradient in fp32");
                draft.stream(of_scaled, PASS, (bytes, single), &[half], &[(of_scaled, single)]);
            }
            let (direct, of_factor) = (of("gradient, scaled"), of("factor gradient"));
            draft.stream(direct, PASS, (single + each, single), &[of_scaled, factor], &[(direct, single)]);
            draft.stream(of_factor, PASS, (2 * single, single), &[of_scaled, input], &[(of_factor, single)]);
            draft.stream(of("sum of factor gradient"), SUM, (single, each), &[of_factor], &[]);
            // r = m^-1/2, so -1/2 r^3; then the mean, and 2 x.
            for step in ["cube of factor", "half of cube", "mean gradient"] {
                draft.stream(of(step), PASS, (each, each), &[of_factor], &[]);
            }
            let (spread, twice) = (of("gradient of squares"), of("input twice"));
            draft.stream(spread, PASS, (each, single), &[of_factor], &[(spread, single)]);
            draft.stream(
                of("input to the power of one"),
                PASS,
                (single, single),
                &[input],
                &[(twice, single)],
            );
            draft.stream(twice, PASS, (single, single), &[twice], &[]);
            let through = of("gradient through squares");
            draft.stream(through, PASS, (2 * single, single), &[spread, twice], &[(through, single)]);
            let mut result = of("input gradient");
            draft.stream(result, PASS, (2 * single, single), &[direct, through], &[(result, single)]);
            if cast {
                let whole = result;
                result = of("input gradient, cast");
                draft.stream(result, PASS, (single, bytes), &[whole], &[(result, bytes)]);
            }
            reverse.give(from, result);
        });
        to
    }
}
