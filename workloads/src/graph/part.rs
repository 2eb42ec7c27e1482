//! Parts of a model by their place in it.

/// Place of a block in a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PartKind {
    Embedding,
    Layer,
    Head,
}
