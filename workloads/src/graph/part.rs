//! Parts of a model by their place in it.

/// Place of a block in a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartKind {
    /// What comes first: a lookup of words, or the first block of a list of layers.
    Embedding,
    /// What is between.
    Layer,
    /// What comes last, with the loss.
    Head,
}
