//! Parameters of the formulas from measured kernels: relative least squares by simplex search.
//!
//! Parameters are searched as logarithms, which keeps them positive, from more than one start, as the choice of tiles
//! makes valleys. What no sample shows stays as it is in the model: the factor of a layout or a pass, that of dimensions
//! out of alignment, the exponent where full tiles always fill the GPU, the memory time that is not hidden and the issue of
//! groups where few products were measured.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;

use super::growth::Growth;
use super::hardware::rounded;
use super::split;
use hw_models::errors::{Errors, huber};
use hw_models::kernels::{
    AlgorithmParameters, Attention, Convolution, ConvolutionAlgorithm, ConvolutionParameters,
    ConvolutionPass, Dtype, Gemm, GroupedGemm, KernelClass, KernelCost, KernelError, KernelModel, Layout,
    Pass, Shape, Stream, StreamClass,
};
use hw_models::search::minimise;

/// Highest exponent: operands per multiplication grow with the square root of a tile's area as it shrinks, and nothing
/// else a tile does grows faster.
const SQUARE_ROOT: f64 = 0.5;

/// Products that tell memory time that is not hidden from slow tiles, or groups that wait to be issued.
const MANY: usize = 30;
/// Share of a measured time that is left without the growth of launches, at least.
const LEAST_LEFT: f64 = 0.1;
/// Convolutions that tell the speed of an algorithm.
const SOME: usize = 8;
/// Heads wider than this take other blocks in flash attention.
const WIDE: u64 = 128;

/// A measured kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// What was run.
    pub shape: KernelShape,
    /// How long it took (s).
    pub seconds: f64,
    /// Algorithm that the library took for a convolution, where the table tells.
    pub took: Option<ConvolutionAlgorithm>,
    /// Shapes that the host had launched before, where the table tells, see [`Growth`].
    pub nth: u64,
    /// Hash of the inputs of its row, see [`split`].
    pub hash: u64,
    /// The line of its row.
    pub line: u64,
}

/// A shape that the kernel model can time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum KernelShape {
    /// A matrix product.
    Gemm(Gemm),
    /// A grouped matrix product.
    Grouped(GroupedGemm),
    /// A convolution.
    Convolution(Convolution),
    /// A pass of flash attention.
    Attention(Attention),
    /// A pass over memory, timed again and again over the same buffers.
    Stream(Stream),
    /// A pass over memory whose buffers the cache does not hold.
    Cold(Stream),
}

impl Sample {
    /// A kernel of which it may be known what the library chose: it is priced as one to choose for.
    pub(super) fn new(mut shape: KernelShape, seconds: f64, hash: u64, line: u64) -> Self {
        let took = match &mut shape {
            KernelShape::Convolution(convolution) => convolution.algorithm.take(),
            _ => None,
        };
        Self { shape, seconds, took, nth: 0, hash, line }
    }

    /// Whether it judges, and nothing is fitted on it.
    pub fn held_out(&self) -> bool {
        split::judges(self.hash)
    }

    /// As the first launch.
    #[must_use]
    pub fn without(self, growth: Growth) -> Self {
        // The growth is that of most launches; a quicker one would leave its kernel no time.
        let seconds = (self.seconds - growth.added(self.nth)).max(LEAST_LEFT * self.seconds);
        Self { seconds, nth: 0, ..self }
    }

    /// The convolution as one that is told its algorithm. `None`: it took another.
    fn by(&self, algorithm: ConvolutionAlgorithm) -> Option<Self> {
        let KernelShape::Convolution(shape) = self.shape else { return None };
        let told = Convolution { algorithm: Some(algorithm), ..shape };
        (self.took == Some(algorithm)).then_some(Self { shape: KernelShape::Convolution(told), ..*self })
    }

    /// `ln(predicted / measured)`.
    pub(super) fn log_error(&self, model: &KernelModel) -> Result<f64, KernelError> {
        Ok((self.shape.cost(model)?.alone().as_secs() / self.seconds).ln())
    }
}

impl KernelShape {
    /// Its cost.
    ///
    /// # Errors
    /// As the model's function for this shape.
    pub fn cost(&self, model: &KernelModel) -> Result<KernelCost, KernelError> {
        match self {
            Self::Gemm(shape) => model.gemm(shape),
            Self::Grouped(shape) => model.grouped(shape),
            Self::Convolution(shape) => model.convolution(shape),
            Self::Attention(shape) => model.attention(shape),
            Self::Stream(shape) => model.stream(&model.repeated(shape)),
            Self::Cold(shape) => model.stream(shape),
        }
    }

    /// Its class.
    pub const fn class(&self) -> KernelClass {
        match self {
            Self::Gemm(shape) => shape.class(),
            Self::Grouped(shape) => KernelClass::Grouped(shape.groups.dtype),
            Self::Convolution(shape) => KernelClass::Convolution(shape.dtype),
            Self::Attention(shape) => KernelClass::Attention(shape.pass),
            Self::Stream(shape) | Self::Cold(shape) => KernelClass::Stream(shape.class),
        }
    }

    /// Its place among measured shapes, if its class is corrected near them.
    pub(super) fn among_measured(&self) -> Option<Shape> {
        match self {
            Self::Gemm(shape) => Some(shape.among_measured()),
            Self::Grouped(shape) => Some(shape.among_measured()),
            Self::Convolution(shape) => Some(shape.among_measured()),
            Self::Stream(shape) | Self::Cold(shape) => shape.among_measured(),
            Self::Attention(_) => None,
        }
    }

    const fn layout(&self) -> Option<Layout> {
        match self {
            Self::Gemm(shape) => Some(shape.layout),
            Self::Grouped(shape) => Some(shape.groups.layout),
            _ => None,
        }
    }

    /// Queries of a sequence, of attention.
    const fn queries(&self) -> Option<u64> {
        match self {
            Self::Attention(shape) => Some(shape.queries),
            _ => None,
        }
    }

    /// Type of what grouped products are added to, if they are.
    const fn sums(&self) -> Option<Dtype> {
        match self {
            Self::Grouped(shape) => shape.groups.accumulate,
            _ => None,
        }
    }
}

impl fmt::Display for KernelShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gemm(shape) => shape.fmt(f),
            Self::Grouped(shape) => shape.fmt(f),
            Self::Convolution(shape) => shape.fmt(f),
            Self::Attention(shape) => shape.fmt(f),
            Self::Stream(shape) | Self::Cold(shape) => shape.fmt(f),
        }
    }
}

/// Errors of a model on samples.
///
/// # Errors
/// When the model cannot time a sample.
pub(super) fn errors(model: &KernelModel, samples: &[Sample]) -> Result<Errors, KernelError> {
    let signed = samples.iter().map(|sample| sample.log_error(model).map(f64::exp_m1));
    Ok(Errors::of(&signed.collect::<Result<Vec<_>, _>>()?))
}

/// The model with the parameters that fit samples of one class best.
///
/// # Errors
/// When the model cannot time a sample.
pub(super) fn fit(model: &KernelModel, samples: &[Sample]) -> Result<KernelModel, KernelError> {
    let Some(first) = samples.first() else { return Ok(model.clone()) };
    let shows = |layout| samples.iter().any(|sample| sample.shape.layout() == Some(layout));
    match first.shape {
        KernelShape::Gemm(gemm) => fit_gemm(model, samples, gemm, shows),
        KernelShape::Grouped(_) => fit_grouped(model, samples, shows),
        KernelShape::Convolution(convolution) => fit_convolution(model, samples, convolution),
        KernelShape::Attention(attention) => fit_attention(model, samples, attention.pass),
        KernelShape::Stream(stream) | KernelShape::Cold(stream) => fit_stream(model, samples, stream),
    }
}

fn fit_gemm(
    model: &KernelModel,
    samples: &[Sample],
    first: Gemm,
    shows: impl Fn(Layout) -> bool,
) -> Result<KernelModel, KernelError> {
    let batched = matches!(first.class(), KernelClass::Batched(_));
    let parameters = &model.parameters;
    let p = if batched { parameters.batched(first.dtype)? } else { parameters.gemm(first.dtype)? }.clone();
    let gemms = || {
        samples.iter().filter_map(|sample| match sample.shape {
            KernelShape::Gemm(gemm) => Some(gemm),
            _ => None,
        })
    };
    let small = gemms().any(|gemm| gemm.tiles([128, 128]) < u64::from(model.facts.sms));
    let (input, weight) = (shows(Layout::InputGradient), shows(Layout::WeightGradient));
    let misaligned = gemms().any(|gemm| !gemm.aligned());
    // One product at a time goes at full clocks: what power holds, those tell that follow each other.
    let alone = p.continuous.is_some_and(|held| held < p.sustained);
    let starts = [(0.9, 0.2), (0.6, 0.5)].map(|(e_max, exponent)| {
        vec![
            Searched::to(e_max, 1.0),
            Searched::to(exponent, SQUARE_ROOT).where_told(small, p.exponent),
            Searched::to(50.0, 1024.0),
            Searched::to(5.0, 200.0),
            Searched::to(1.0, 1.5).where_told(input && shows(Layout::Forward), p.input_gradient),
            Searched::to(1.0, 1.5).where_told(weight, p.weight_gradient),
            Searched::to(0.8, 1.0).where_told(misaligned, p.misaligned),
            Searched::to(0.85 * e_max, 1.0).where_told(!alone, p.sustained),
            Searched::to(0.2, 1.0).where_told(samples.len() >= MANY, p.serial),
        ]
    });
    search(model, samples, &starts, |model, x| {
        let mut fitted = p.clone();
        (fitted.e_max, fitted.exponent, fitted.prologue_k, fitted.start_us) = (x[0], x[1], x[2], x[3]);
        (fitted.input_gradient, fitted.weight_gradient, fitted.misaligned) = (x[4], x[5], x[6]);
        (fitted.sustained, fitted.serial) = (x[7], x[8]);
        let by_type = if batched { &mut model.parameters.batched } else { &mut model.parameters.gemm };
        by_type.insert(first.dtype, fitted);
    })
}

fn fit_grouped(
    model: &KernelModel,
    samples: &[Sample],
    shows: impl Fn(Layout) -> bool,
) -> Result<KernelModel, KernelError> {
    let p = model.parameters.grouped.clone();
    // What sums in fp32 take more than others tells memory and arithmetic apart.
    let sums: BTreeSet<Dtype> = samples.iter().filter_map(|sample| sample.shape.sums()).collect();
    let tells_serial = sums.len() > 1;
    let start = vec![
        Searched::to(0.9, 1.5).where_told(shows(Layout::Forward), p.forward),
        Searched::to(0.9, 1.5).where_told(shows(Layout::InputGradient), p.input_gradient),
        Searched::to(0.9, 1.5).where_told(shows(Layout::WeightGradient), p.weight_gradient),
        Searched::to(5.0, 50.0).where_told(samples.len() >= MANY, p.issue_us),
        Searched::to(0.5, 1.0).where_told(tells_serial, 0.5),
    ];
    search(model, samples, &[start], |model, x| {
        let grouped = &mut model.parameters.grouped;
        (grouped.forward, grouped.input_gradient, grouped.weight_gradient) = (x[0], x[1], x[2]);
        grouped.issue_us = x[3];
        grouped.serial = tells_serial.then_some(x[4]).or(p.serial);
    })
}

/// Each algorithm on the rows that took it, then the implicit products of each gradient on all of
/// its rows, of which no table tells the algorithm.
fn fit_convolution(
    model: &KernelModel,
    samples: &[Sample],
    first: Convolution,
) -> Result<KernelModel, KernelError> {
    use ConvolutionAlgorithm::{FusedWinograd, Implicit, Winograd};
    let mut model = model.clone();
    for algorithm in [Implicit, FusedWinograd, Winograd] {
        let took: Vec<Sample> = samples.iter().filter_map(|sample| sample.by(algorithm)).collect();
        if took.len() >= SOME {
            model = fit_algorithm(&model, &took, (ConvolutionPass::Forward, algorithm, first.dtype))?;
        }
    }
    for pass in [ConvolutionPass::InputGradient, ConvolutionPass::WeightGradient] {
        let is = |sample: &&Sample| matches!(sample.shape, KernelShape::Convolution(c) if c.pass == pass);
        let gradients: Vec<Sample> = samples.iter().filter(is).copied().collect();
        if gradients.len() >= SOME {
            model = fit_algorithm(&model, &gradients, (pass, Implicit, first.dtype))?;
        }
    }
    Ok(model)
}

/// The speed of an algorithm's tiles, and what it alone tells: of outputs by implicit products the
/// start, of Winograd's the passes that transform.
fn fit_algorithm(
    model: &KernelModel,
    took: &[Sample],
    (pass, algorithm, dtype): (ConvolutionPass, ConvolutionAlgorithm, Dtype),
) -> Result<KernelModel, KernelError> {
    use ConvolutionAlgorithm::{FusedWinograd, Implicit, Winograd};
    let p = model.parameters.convolution(dtype)?.clone();
    let outputs = (pass, algorithm) == (ConvolutionPass::Forward, Implicit);
    // Tiles of one size tell nothing of others.
    let sizes = law_of(&mut p.clone(), pass, algorithm).tiles.len() != 1 && algorithm != FusedWinograd;
    let starts = [(0.6, 50.0), (0.9, 150.0)].map(|(e_max, start_us)| {
        vec![
            Searched::to(e_max, 1.0),
            Searched::to(0.2, SQUARE_ROOT).where_told(sizes, 0.0),
            Searched::to(20.0, 1024.0),
            Searched::to(start_us, 500.0).where_told(outputs, p.start_us),
            Searched::to(0.6, 1.0).where_told(algorithm == Winograd, p.transforms),
        ]
    });
    search(model, took, &starts, |model, x| {
        let mut fitted = ConvolutionParameters { start_us: x[3], transforms: x[4], ..p.clone() };
        let law = law_of(&mut fitted, pass, algorithm);
        (law.e_max, law.exponent, law.prologue_k) = (x[0], x[1], x[2]);
        model.parameters.convolution.insert(dtype, fitted);
    })
}

/// The parameters of an algorithm, those of outputs by implicit products where it had none.
fn law_of(
    parameters: &mut ConvolutionParameters,
    pass: ConvolutionPass,
    algorithm: ConvolutionAlgorithm,
) -> &mut AlgorithmParameters {
    use ConvolutionAlgorithm::{Fourier, FusedWinograd, Implicit, Winograd};
    let law = match (algorithm, pass) {
        (Implicit, ConvolutionPass::Forward) => return &mut parameters.implicit,
        (Implicit, ConvolutionPass::InputGradient) => &mut parameters.input_gradient,
        (Implicit, ConvolutionPass::WeightGradient) => &mut parameters.weight_gradient,
        (FusedWinograd, _) => &mut parameters.fused,
        (Winograd | Fourier, _) => &mut parameters.winograd,
    };
    law.get_or_insert_with(|| parameters.implicit.clone())
}

/// The start of the kernel is that of the model. Both passes have one factor for narrow heads, which the forward pass tells.
fn fit_attention(model: &KernelModel, samples: &[Sample], pass: Pass) -> Result<KernelModel, KernelError> {
    let shows = |is: fn(u64) -> bool| {
        samples
            .iter()
            .any(|sample| matches!(sample.shape, KernelShape::Attention(shape) if is(shape.head_dim)))
    };
    let tells_narrow = pass == Pass::Forward && shows(|width| width < WIDE);
    let known = &model.parameters.attention;
    let (narrow, wide, serial) = (known.head_dim_64, known.pass(pass).head_dim_192, known.pass(pass).serial);
    // Memory grows with tokens, arithmetic with their square: several lengths tell them apart.
    let lengths: BTreeSet<u64> = samples.iter().filter_map(|sample| sample.shape.queries()).collect();
    let tells_serial = lengths.len() > 2;
    let start = vec![
        Searched::to(0.6, 1.0),
        Searched::to(0.5, 1.0),
        Searched::to(0.9, 1.2).where_told(shows(|width| width > WIDE), wide),
        Searched::to(0.9, 1.2).where_told(tells_narrow, narrow),
        Searched::to(0.5, 1.0).where_told(tells_serial, serial),
    ];
    search(model, samples, &[start], |model, x| {
        let attention = &mut model.parameters.attention;
        attention.head_dim_64 = x[3];
        let fitted = match pass {
            Pass::Forward => &mut attention.forward,
            Pass::Backward => &mut attention.backward,
        };
        (fitted.e_max, fitted.tail, fitted.head_dim_192, fitted.serial) = (x[0], x[1], x[2], x[4]);
    })
}

fn fit_stream(model: &KernelModel, samples: &[Sample], first: Stream) -> Result<KernelModel, KernelError> {
    let p = model.parameters.stream(first.class)?.clone();
    // What looks up elements hides the memory it reads; durations of a profiler hold no launch path.
    let looks_up = first.looked_up > 0;
    let profiled = first.class == StreamClass::Optimizer;
    let start = vec![
        Searched::to(0.8, 1.0).where_told(!looks_up, p.achieved),
        Searched::to(5.0, 500.0).where_told(!profiled, p.start_us),
        Searched::to(0.5, 32.0).where_told(looks_up, 0.0),
    ];
    search(model, samples, &[start], |model, x| {
        let mut fitted = p.clone();
        (fitted.achieved, fitted.start_us) = (x[0], x[1]);
        fitted.per_clock = looks_up.then_some(x[2]);
        model.parameters.stream.insert(first.class, fitted);
    })
}

/// A parameter of a search.
#[derive(Clone, Copy)]
struct Searched {
    from: f64,
    /// Not above; none is kept as it is.
    most: Option<f64>,
}

impl Searched {
    const fn to(from: f64, most: f64) -> Self {
        Self { from, most: Some(most) }
    }

    /// Searched if the samples tell it, or kept as it is known.
    const fn where_told(self, told: bool, known: f64) -> Self {
        if told { self } else { Self { from: known, most: None } }
    }
}

/// Searches the parameters that `set` writes into a model, from each start.
fn search(
    model: &KernelModel,
    samples: &[Sample],
    starts: &[Vec<Searched>],
    set: impl Fn(&mut KernelModel, &[f64]),
) -> Result<KernelModel, KernelError> {
    for sample in samples {
        sample.shape.cost(model)?;
    }
    let mut best: Option<(f64, Vec<f64>)> = None;
    for start in starts {
        let free: Vec<usize> = (0..start.len()).filter(|&i| start[i].most.is_some()).collect();
        let values = |logs: &[f64], digits: fn(f64) -> f64| {
            let mut values: Vec<f64> = start.iter().map(|parameter| parameter.from).collect();
            for (&i, log) in free.iter().zip(logs) {
                values[i] = digits(start[i].most.map_or(log.exp(), |most| log.exp().min(most)));
            }
            values
        };
        // One model for all that is tried: it has thousands of corrections of other classes.
        let tried = RefCell::new(model.clone());
        let loss = |logs: &[f64]| {
            let mut model = tried.borrow_mut();
            set(&mut model, &values(logs, |value| value));
            samples.iter().map(|sample| huber(sample.log_error(&model).unwrap_or(f64::INFINITY))).sum::<f64>()
        };
        let logs: Vec<f64> = free.iter().map(|&i| start[i].from.max(1e-6).ln()).collect();
        // Started again from its result, as a simplex may collapse on the way.
        let once = minimise(&logs, 0.2, &loss);
        let found = minimise(&once, 0.05, &loss);
        let least = loss(&found);
        if best.as_ref().is_none_or(|(known, _)| least < *known) {
            // As the catalogue has them: what is fitted next then rests on what is written.
            best = Some((least, values(&found, rounded)));
        }
    }
    let mut model = model.clone();
    if let Some((_, found)) = best {
        set(&mut model, &found);
    }
    Ok(model)
}
