//! Normalisations. All read their input for the moments and again to scale it, which costs memory twice where the rows in
//! flight outgrow the cache; the rows of batch normalisation are channels.

use crate::graph::operator::{Math, StreamClass};

use super::shape::Shape;
use super::tape::{Kept, SINGLE, Tape, Value};
use crate::model::names::{Name, name};

impl Tape<'_> {
    /// Over the batch (Ioffe and Szegedy, ICML 2015): one kernel each way (cuDNN), and a count of batches. Kept are the
    /// input, a mean and a deviation of every channel.
    pub(super) fn batch_norm(&mut self, from: Value) -> Result<Value, String> {
        if !from.shape.channels_first() {
            return Err(format!("`batch_norm` takes an image or a signal, not {}", from.shape));
        }
        if !self.on.trains() {
            return Ok(self.scale_and_shift(from));
        }
        let layer = self.layer("batch norm");
        self.draft.stream(name(layer, "count"), StreamClass::Elementwise, (8, 8), &[], &[]);
        let channels = from.shape.channels();
        Ok(self.norm(layer, from, (StreamClass::LayerNorm, channels), 2 * SINGLE * channels, 2, false))
    }

    /// Batch normalisation by the statistics of training: in evaluation a factor and a summand of
    /// each channel.
    fn scale_and_shift(&mut self, from: Value) -> Value {
        self.parameters += 2 * from.shape.channels();
        let to = self.pass("batch norm", from, Kept::Nothing);
        self.draft.does(Math::Normalise);
        to
    }

    /// Over the channels of every place. Where channels are apart in memory, a copy puts them together first.
    pub(super) fn layer_norm(&mut self, from: Value) -> Result<Value, String> {
        let rows = self.on.rows(placed(from)?);
        let layer = self.layer("layer norm");
        let from = if from.shape.channels_first() { self.channels_last(from) } else { from };
        Ok(self.norm(layer, from, (StreamClass::LayerNorm, rows), 2 * SINGLE * rows, 2, true))
    }

    /// By the root mean square of the channels of every place (Zhang and Sennrich, NeurIPS 2019).
    pub(super) fn rms_norm(&mut self, from: Value) -> Result<Value, String> {
        let rows = self.on.rows(placed(from)?);
        let layer = self.layer("rms norm");
        if self.on.in_operators {
            return Ok(self.rms_in_operators(layer, from));
        }
        Ok(self.norm(layer, from, (StreamClass::RmsNorm, rows), SINGLE * rows, 1, true))
    }

    /// Over groups of channels (Wu and He, ECCV 2018).
    pub(super) fn group_norm(&mut self, from: Value, groups: u64) -> Result<Value, String> {
        let channels = from.shape.channels();
        if !from.shape.channels_first() || groups == 0 || !channels.is_multiple_of(groups) {
            return Err(format!(
                "`group_norm` takes an image or a signal whose channels {groups} groups divide, not {}",
                from.shape
            ));
        }
        let rows = u64::from(self.on.micro_batch) * groups;
        let layer = self.layer("group norm");
        Ok(self.norm(layer, from, (StreamClass::LayerNorm, rows), 2 * SINGLE * rows, 2, true))
    }

    /// A normalisation over rows, which leaves `statistics` and has so many `vectors` of parameters. Their gradients come
    /// from a pass of their own where it is `apart`, else from that of the input.
    fn norm(
        &mut self,
        layer: Name,
        from: Value,
        rows: (StreamClass, u64),
        statistics: u64,
        vectors: u64,
        apart: bool,
    ) -> Value {
        let (to, bytes) = (self.value(layer, from.shape), self.on.bytes(from.shape));
        let (channels, kept) = (from.shape.channels(), name(layer, "statistics"));
        self.parameters += vectors * channels;
        let writes = [(to.tensor, bytes), (kept, statistics)];
        self.draft.walk(layer, rows, (bytes, bytes + statistics), &[from.tensor], &writes);
        self.back(to, move |reverse, gradient| {
            let result = name(layer, "input gradient");
            let reads = [gradient, from.tensor, kept];
            let read = 2 * bytes + statistics;
            if apart {
                reverse.draft.walk(result, rows, (read, bytes), &reads, &[(result, bytes)]);
                reverse.reduced(layer, "weight gradient", &reads, read, (vectors * channels, vectors as u32));
            } else {
                let of_weights = name(layer, "weight gradient");
                let writes = [(result, bytes), (of_weights, vectors * channels * reverse.on.dtype.bytes())];
                reverse.draft.walk(result, rows, (read, bytes), &reads, &writes);
                reverse.accumulate_several(of_weights, vectors * channels, vectors as u32);
            }
            reverse.give(from, result);
        });
        to
    }

    /// A copy in which the channels of a place are side by side.
    fn channels_last(&mut self, from: Value) -> Value {
        self.pass("copy to channels last", from, Kept::Nothing)
    }
}

/// The shape of what has channels.
fn placed(value: Value) -> Result<Shape, String> {
    match value.shape {
        shape @ Shape::Ids { .. } => Err(format!("a norm takes numbers, not {shape}")),
        shape => Ok(shape),
    }
}
