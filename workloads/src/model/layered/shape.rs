//! Shapes of what passes from layer to layer.

use super::layer::Input;

/// Shape of a sample between two layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Entries of a vocabulary.
    Ids {
        /// How many.
        tokens: u64,
    },
    /// Values at the places of a plane.
    Image {
        /// At each place.
        channels: u64,
        /// Rows and columns.
        places: [u64; 2],
    },
    /// Values at the places of a line.
    Signal {
        /// At each place.
        channels: u64,
        /// Places.
        length: u64,
    },
    /// Vectors.
    Tokens {
        /// How many.
        tokens: u64,
        /// Elements of each.
        width: u64,
    },
    /// One vector.
    Vector {
        /// Its elements.
        width: u64,
    },
}

impl Shape {
    /// The shape that an input says, if it says one.
    pub fn of(input: &Input) -> Option<Self> {
        let Input { channels, height, width, length, tokens } = *input;
        match (channels, height, width, length, tokens) {
            (Some(channels), Some(height), Some(width), None, None) => {
                Some(Self::Image { channels: channels.into(), places: [height.into(), width.into()] })
            }
            (Some(channels), None, None, Some(length), None) => {
                Some(Self::Signal { channels: channels.into(), length: length.into() })
            }
            (None, None, None, None, Some(tokens)) => Some(Self::Ids { tokens: tokens.into() }),
            (None, None, Some(width), None, Some(tokens)) => {
                Some(Self::Tokens { tokens: tokens.into(), width: width.into() })
            }
            _ => None,
        }
    }

    /// Channels, or the width of vectors; what linear layers and norms work over.
    pub(super) const fn channels(self) -> u64 {
        match self {
            Self::Ids { .. } => 1,
            Self::Image { channels, .. } | Self::Signal { channels, .. } => channels,
            Self::Tokens { width, .. } | Self::Vector { width } => width,
        }
    }

    /// Places of a sample.
    pub(super) const fn places(self) -> u64 {
        match self {
            Self::Ids { tokens } | Self::Tokens { tokens, .. } => tokens,
            Self::Image { places: [height, width], .. } => height.saturating_mul(width),
            Self::Signal { length, .. } => length,
            Self::Vector { .. } => 1,
        }
    }

    /// Elements of a sample.
    pub(super) const fn elements(self) -> u64 {
        self.channels().saturating_mul(self.places())
    }

    /// The same places with other channels.
    pub(super) const fn with_channels(self, count: u64) -> Self {
        match self {
            Self::Ids { tokens } | Self::Tokens { tokens, .. } => Self::Tokens { tokens, width: count },
            Self::Image { places, .. } => Self::Image { channels: count, places },
            Self::Signal { length, .. } => Self::Signal { channels: count, length },
            Self::Vector { .. } => Self::Vector { width: count },
        }
    }

    /// Whether channels are apart in memory, each with all its places.
    pub(super) const fn channels_first(self) -> bool {
        matches!(self, Self::Image { .. } | Self::Signal { .. })
    }
}

impl std::fmt::Display for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ids { tokens } => write!(f, "{tokens} entries of a vocabulary"),
            Self::Image { channels, places: [height, width] } => {
                write!(f, "an image of {channels} x {height} x {width}")
            }
            Self::Signal { channels, length } => write!(f, "a signal of {channels} x {length}"),
            Self::Tokens { tokens, width } => write!(f, "{tokens} tokens of {width}"),
            Self::Vector { width } => write!(f, "a vector of {width}"),
        }
    }
}
