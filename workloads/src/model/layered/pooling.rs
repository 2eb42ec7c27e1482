//! Pooling over places.

use crate::graph::operator::{Math, StreamClass};

use super::layer::Pool;
use super::shape::Shape;
use super::tape::{Tape, Value, in_bounds};
use crate::model::names::name;

/// Bytes of the place that a maximum was found at, an integer of 64 bits.
const PLACE_BYTES: u64 = 8;

impl Tape<'_> {
    /// Largest or mean of a window. PyTorch keeps the input of either, and the places of maxima;
    /// cuDNN compares the input with the output. Backwards, a thread of PyTorch's looks into each
    /// window that its place of the input is in (`max_pool_backward_nchw`).
    pub(super) fn pool(&mut self, from: Value, pool: &Pool, largest: bool) -> Result<Value, String> {
        let (kernel, padding) = (u64::from(pool.kernel), u64::from(pool.padding));
        let stride = u64::from(pool.stride.unwrap_or(pool.kernel));
        in_bounds("a window", &[kernel, stride])?;
        let along = |extent: u64| {
            let padded = extent + 2 * padding;
            let fits = kernel <= padded && 2 * padding <= kernel;
            fits.then(|| (padded - kernel) / stride + 1).ok_or_else(|| {
                format!("a window of {kernel} with a padding of {padding} does not fit {extent} places")
            })
        };
        let made = match from.shape {
            Shape::Image { channels, places: [height, width] } => {
                Shape::Image { channels, places: [along(height)?, along(width)?] }
            }
            Shape::Signal { channels, length } => Shape::Signal { channels, length: along(length)? },
            other => return Err(format!("pooling takes an image or a signal, not {other}")),
        };
        let layer = self.layer(if largest { "max pool" } else { "average pool" });
        let (to, places) = (self.value(layer, made), name(layer, "places"));
        let (read, written) = (self.on.bytes(from.shape), self.on.bytes(made));
        let keeps_places = largest && !self.on.cudnn;
        let of_places = if keeps_places { PLACE_BYTES * self.on.elements(made) } else { 0 };
        let compared = if largest && !keeps_places { read + written } else { of_places };
        let writes = [(to.tensor, written), (places, of_places)];
        let writes = if keeps_places { &writes[..] } else { &writes[..1] };
        let window = if let Shape::Image { .. } = made { kernel * kernel } else { kernel };
        let places_seen = if keeps_places { self.on.elements(made).saturating_mul(window) } else { 0 };
        let traffic = (read, written + of_places);
        self.draft.stream(layer, StreamClass::Elementwise, traffic, &[from.tensor], writes);
        self.draft.does(Math::Window);
        self.back(to, move |reverse, gradient| {
            let result = name(layer, "input gradient");
            let reads = [gradient, from.tensor, if keeps_places { places } else { to.tensor }];
            let reads = if largest { &reads[..] } else { &reads[..2] };
            let traffic = (written + compared, read);
            let looked_up = (StreamClass::Elementwise, places_seen);
            reverse.draft.look_up(result, looked_up, traffic, reads, &[(result, read)]);
            reverse.draft.does(Math::Window);
            reverse.give(from, result);
        });
        Ok(to)
    }

    /// The mean over all places: a vector of the channels.
    pub(super) fn global_average_pool(&mut self, from: Value) -> Result<Value, String> {
        if matches!(from.shape, Shape::Ids { .. } | Shape::Vector { .. }) {
            return Err(format!("there are no places to average over in {}", from.shape));
        }
        let layer = self.layer("global average pool");
        let to = self.value(layer, Shape::Vector { width: from.shape.channels() });
        let (read, written) = (self.on.bytes(from.shape), self.on.bytes(to.shape));
        let writes = [(to.tensor, written)];
        self.draft.stream(layer, StreamClass::Reduction, (read, written), &[from.tensor], &writes);
        self.back(to, move |reverse, gradient| {
            let (result, class) = (name(layer, "input gradient"), StreamClass::Elementwise);
            reverse.draft.stream(result, class, (written, read), &[gradient], &[(result, read)]);
            reverse.give(from, result);
        });
        Ok(to)
    }
}
