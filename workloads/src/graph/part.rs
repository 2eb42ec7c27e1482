//! Parts of a model by their place in it.

/// Place of a block in a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartKind {
    /// First block: a lookup of words, or the first of a list of layers.
    Embedding,
    /// Block between the two ends.
    Layer,
    /// Last block, with the loss.
    Head,
}
