//! Kernels in words, as messages and pages have them.

use std::fmt;

use serde::Serialize;

use super::{
    Attention, Convolution, ConvolutionAlgorithm, ConvolutionPass, GroupedGemm, Pass, Stream, StreamClass,
};

impl fmt::Display for Attention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pass, batch, heads, queries, keys, head_dim, window, dtype, .. } = self;
        let causal = if self.causal { ", causal" } else { "" };
        write!(
            f,
            "{pass} attention of {batch} x {heads} heads {head_dim} wide, {queries} queries, {keys} keys"
        )?;
        write!(f, "{causal}")?;
        window.map_or(Ok(()), |window| write!(f, ", a window of {window}"))?;
        write!(f, ", {dtype}")
    }
}

impl fmt::Display for Convolution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pass, batch, in_channels, out_channels, input, filter, dtype, algorithm, .. } = self;
        write!(f, "{pass} of a convolution of {batch} x {in_channels} x {} x {}", input[0], input[1])?;
        write!(f, " by {out_channels} filters of {} x {}, {dtype}", filter[0], filter[1])?;
        algorithm.map_or(Ok(()), |algorithm| write!(f, ", {algorithm}"))
    }
}

impl fmt::Display for GroupedGemm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "group of {}", self.groups)
    }
}

impl fmt::Display for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { class, bytes_read, bytes_written, .. } = self;
        write!(f, "{class}: {bytes_read} B read, {bytes_written} B written")
    }
}

impl fmt::Display for StreamClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

impl fmt::Display for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

impl fmt::Display for ConvolutionAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Implicit => "as an implicit product",
            Self::FusedWinograd => "by Winograd's algorithm in one kernel",
            Self::Winograd => "by Winograd's algorithm",
            Self::Fourier => "by Fourier transforms",
        })
    }
}

impl fmt::Display for ConvolutionPass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Forward => "outputs",
            Self::InputGradient => "gradient of the input",
            Self::WeightGradient => "gradient of the weight",
        })
    }
}
