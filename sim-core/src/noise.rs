//! Random variation of durations in three parts: the lasting speed of a device, each operation, rare pauses. Independent
//! noise per operation averages away; lasting differences and pauses are what costs a synchronous step.
//!
//! Each part has its own ChaCha key, each device or stream its own ChaCha stream, and operation `i` its own place in it:
//! a draw depends on what it is for, not on what was drawn before. Arithmetic is in integers, so that every machine gives
//! the same bits.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::time::Time;

/// Relative variations; all zero by default.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Noise {
    /// Standard deviation of a device's lasting speed, relative; drawn once per device.
    pub device: f64,
    /// Standard deviation of each operation's duration, relative.
    pub operation: f64,
    /// Rare pauses of a device.
    pub pause: Option<Pause>,
}

/// A pause that hits a stream now and then (garbage collection, clock throttling).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pause {
    /// Mean busy time between two pauses.
    pub every: Time,
    /// Mean length; uniform from half to one and a half times it.
    pub lasting: Time,
}

impl Noise {
    /// Whether nothing varies.
    pub fn is_silent(&self) -> bool {
        self.device == 0.0 && self.operation == 0.0 && self.pause.is_none()
    }
}

/// The draws of one run.
#[derive(Clone, Debug)]
pub struct NoiseSource {
    silent: bool,
    /// Standard deviation of the device factor.
    device: Deviation,
    /// Standard deviation of the operation factor.
    operation: Deviation,
    pause: Option<Pause>,
    device_draws: Draws,
    operation_draws: Draws,
    pause_draws: Draws,
    /// Device factors by stream, once drawn.
    lasting: Vec<Option<Factor>>,
}

/// 32-bit words of a normal draw.
const NORMAL_WORDS: u64 = 12;
/// 32-bit words of a pause: whether, and how long.
const PAUSE_WORDS: u64 = 4;

impl NoiseSource {
    /// The draws of `noise` under `seed`. Deviations that are negative or not numbers count as 0, above 1,000 as 1,000.
    pub fn new(noise: Noise, seed: u64) -> Self {
        Self {
            silent: noise.is_silent(),
            device: Deviation::new(noise.device),
            operation: Deviation::new(noise.operation),
            pause: noise.pause,
            device_draws: Draws::new(seed, 0, NORMAL_WORDS),
            operation_draws: Draws::new(seed, 1, NORMAL_WORDS),
            pause_draws: Draws::new(seed, 2, PAUSE_WORDS),
            lasting: Vec::new(),
        }
    }

    /// Whether every factor is 1 and no pause ever comes.
    pub fn is_silent(&self) -> bool {
        self.silent
    }

    /// How much longer than nominal the `operation`-th operation of `stream`, which belongs to `device`, takes.
    pub fn factor(&mut self, device: u32, stream: u32, operation: u64) -> Factor {
        let lasting = self.lasting(device, stream);
        if self.operation.0 == 0 {
            return lasting;
        }
        lasting.times(self.operation.draw(self.operation_draws.at(stream, operation)))
    }

    /// The pause that falls into the `operation`-th operation of `stream`, which takes `alone` by itself: with
    /// probability `alone / every` (at most 1) a length uniform from half to one and a half times the mean.
    pub fn pause(&mut self, stream: u32, operation: u64, alone: Time) -> Time {
        let Some(pause) = self.pause else { return Time::ZERO };
        let words = self.pause_draws.at(stream, operation);
        let (moment, length) = (words.next_u64(), words.next_u64());
        if below(pause.every.0, moment) >= alone.0 {
            return Time::ZERO;
        }
        let lasting = pause.lasting.0;
        Time((lasting / 2).saturating_add(below(lasting.saturating_add(1), length)))
    }

    /// The factor of `device`; each of its streams draws it once, from the same place.
    fn lasting(&mut self, device: u32, stream: u32) -> Factor {
        if self.device.0 == 0 {
            return Factor::ONE;
        }
        let stream = stream as usize;
        if self.lasting.len() <= stream {
            self.lasting.resize(stream + 1, None);
        }
        *self.lasting[stream].get_or_insert_with(|| self.device.draw(&mut self.device_draws.open(device)))
    }
}

/// A duration relative to the nominal one, in 2^-32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Factor(pub u64);

impl Factor {
    /// No change.
    pub const ONE: Self = Self(1 << 32);
    /// The smallest factor of one part: nothing runs more than ten times faster than nominal.
    pub const LEAST: Self = Self((1 << 32) / 10);

    /// `time` multiplied by the factor, to the nearest picosecond; at most the last moment before [`Time::NEVER`].
    #[inline]
    pub fn scale(self, time: Time) -> Time {
        let scaled = (u128::from(time.0) * u128::from(self.0) + (1 << 31)) >> 32;
        u64::try_from(scaled).map_or(Time::TOO_LATE, Time)
    }

    fn times(self, other: Self) -> Self {
        Self(other.scale(Time(self.0)).0)
    }
}

/// A relative standard deviation in 2^-32.
#[derive(Clone, Copy, Debug)]
struct Deviation(u64);

impl Deviation {
    fn new(relative: f64) -> Self {
        Self((relative.clamp(0.0, 1_000.0) * (1u64 << 32) as f64).round() as u64)
    }

    /// `max(LEAST, 1 + deviation z)`, where z is the sum of 12 uniform numbers minus 6 (Irwin-Hall): mean 0, variance 1,
    /// within 6 deviations, without a logarithm that libraries round differently.
    #[inline]
    fn draw(self, words: &mut ChaCha8Rng) -> Factor {
        let sum: u64 = (0..NORMAL_WORDS).map(|_| u64::from(words.next_u32())).sum();
        let normal = i128::from(sum) - i128::from(NORMAL_WORDS << 31);
        let factor = i128::from(Factor::ONE.0) + ((i128::from(self.0) * normal) >> 32);
        Factor(factor.max(i128::from(Factor::LEAST.0)) as u64)
    }
}

/// A number uniform in `0..bound` (0 for an empty range) from 64 random bits.
fn below(bound: u64, random: u64) -> u64 {
    ((u128::from(random) * u128::from(bound)) >> 64) as u64
}

/// Numbered draws of one part of the noise, of a fixed number of words each.
#[derive(Clone, Debug)]
struct Draws {
    key: [u8; 32],
    words: u64,
    /// By ChaCha stream: generator and the number of the draw it stands at, so that draws in order need no search.
    open: Vec<Option<(ChaCha8Rng, u64)>>,
}

impl Draws {
    fn new(seed: u64, part: u8, words: u64) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        key[8] = part;
        Self { key, words, open: Vec::new() }
    }

    /// The generator of `stream`, at draw 0.
    fn open(&self, stream: u32) -> ChaCha8Rng {
        let mut words = ChaCha8Rng::from_seed(self.key);
        words.set_stream(u64::from(stream));
        words
    }

    /// The generator of `stream`, at draw `number`; the caller takes that draw, all its words.
    #[inline]
    fn at(&mut self, stream: u32, number: u64) -> &mut ChaCha8Rng {
        let index = stream as usize;
        if self.open.len() <= index {
            self.open.resize(index + 1, None);
        }
        if self.open[index].is_none() {
            self.open[index] = Some((self.open(stream), 0));
        }
        let (words, next) = self.open[index].as_mut().expect("opened above");
        if *next != number {
            words.set_word_pos(u128::from(number) * u128::from(self.words));
        }
        *next = number.wrapping_add(1);
        words
    }
}
