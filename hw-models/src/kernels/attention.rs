//! Flash attention: blocks of 128 rows that walk over the other side.
//!
//! The forward pass deals out blocks of queries, each walking over the keys; the backward pass deals out blocks of keys
//! (Dao, "FlashAttention-2", 2023, sections 3.1 and 3.2). One step multiplies 128 x 128 x head_dim twice (forward: scores,
//! output) or five times (backward: scores and the gradients of queries and keys over their width, those of probabilities
//! and values over theirs). A causal mask skips the steps above the diagonal, so that blocks differ in length, and list
//! scheduling on S SMs ends between `total/S` and `total/S + longest` (Graham, 1966):
//!
//! ```text
//! full:    steps = ceil(blocks / S) longest
//! causal:  steps = max(total / S + tail longest, longest)
//! compute = steps 2 {d_qk + d_v | 3 d_qk + 2 d_v} 128 128 / (P/S e_max(d_qk))
//! time    = start + max(compute, memory) + serial min(compute, memory)
//! ```
//!
//! `serial` is the share of memory that arithmetic does not hide: a block loads its rows before it
//! walks and stores them after, and the backward pass has kernels of its own that sum products of
//! rows before it and cast the gradient of queries after it. It makes short sequences slow.
//!
//! `tail` is fitted; it is what makes few heads slow. A window skips the steps that lie before it,
//! too: a block of queries reaches the keys of its last `ceil((window - 1) / 128) + 1` blocks.

use serde::{Deserialize, Serialize};

use super::rows::Blocks;
use super::{Dtype, KernelClass, KernelCost, KernelError, KernelModel, StreamClass};

/// Flash attention over `batch` sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attention {
    /// Forward or backward.
    pub pass: Pass,
    /// Sequences.
    pub batch: u64,
    /// Heads of queries.
    pub heads: u64,
    /// Heads of keys and values, fewer with grouped queries.
    pub kv_heads: u64,
    /// Queries of a sequence.
    pub queries: u64,
    /// Keys of a sequence; the last query sees the last key.
    pub keys: u64,
    /// Width of a head of queries and keys.
    pub head_dim: u64,
    /// Width of a head of values; with latent attention not that of queries and keys.
    pub value_dim: u64,
    /// Queries see no later keys.
    pub causal: bool,
    /// Keys that a query sees at most, its own and those before it, under a causal mask. `None`:
    /// all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<u64>,
    /// Type of the operands.
    pub dtype: Dtype,
}

/// Forward or backward.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pass {
    /// Outputs from inputs.
    Forward,
    /// Gradients of the inputs from gradients of the outputs.
    Backward,
}

/// Rows of a block.
const ROWS: u64 = 128;

impl KernelModel {
    /// Flash attention.
    ///
    /// # Errors
    /// When the GPU has no rate or the catalogue no parameters for the type.
    pub fn attention(&self, shape: &Attention) -> Result<KernelCost, KernelError> {
        let parameters = &self.parameters.attention;
        let pass = parameters.pass(shape.pass);
        let rate = self.peak(shape.dtype)? / f64::from(self.facts.sms.max(1))
            * pass.e_max
            * parameters.width(shape.pass, shape.head_dim);
        let step = 2.0 * shape.depth() * (ROWS * ROWS) as f64 / rate;
        let walk = shape.walk();
        let tail = pass.tail;
        let blocks = Blocks {
            count: walk.blocks,
            resident: 1,
            bytes: shape.bytes(),
            achieved: self.parameters.stream(StreamClass::Elementwise)?.achieved,
            serial: pass.serial,
            seconds: move |sms: u32| walk.steps(sms, tail) * step,
        };
        Ok(blocks.cost(self, parameters.start_us, shape.flops(), KernelClass::Attention(shape.pass)))
    }
}

/// How the blocks of a kernel walk, in steps of 128 x 128.
#[derive(Clone, Copy)]
struct Walk {
    blocks: u64,
    longest: f64,
    total: f64,
    even: bool,
}

impl Walk {
    /// Steps until the last block ends on `sms` SMs.
    fn steps(&self, sms: u32, tail: f64) -> f64 {
        if self.even || self.blocks <= u64::from(sms) {
            return self.blocks.div_ceil(u64::from(sms)) as f64 * self.longest;
        }
        (self.total / f64::from(sms) + tail * self.longest).max(self.longest)
    }
}

impl Attention {
    /// Multiplications and additions: `4 batch heads pairs head_dim` forward and 10 backward where values are as wide as
    /// keys; `pairs` counts the queries and keys that see each other.
    pub fn flops(&self) -> f64 {
        let heads = self.batch as f64 * self.heads as f64;
        let pairs = visible(self.queries as f64, self.keys as f64, self.reach(1));
        2.0 * self.depth() * heads * pairs
    }

    /// Multiplications of a pair: QK and PV forward; QK, dQ and dK, dP and dV backward.
    fn depth(&self) -> f64 {
        let (keys, values) = (self.head_dim as f64, self.value_dim as f64);
        match self.pass {
            Pass::Forward => keys + values,
            Pass::Backward => 3.0 * keys + 2.0 * values,
        }
    }

    fn walk(&self) -> Walk {
        let (queries, keys) = (self.queries.div_ceil(ROWS), self.keys.div_ceil(ROWS));
        let heads = self.batch.saturating_mul(self.heads);
        let (dealt, longest) = match self.pass {
            Pass::Forward => (queries, keys),
            Pass::Backward => (keys, queries),
        };
        let reach = self.reach(ROWS);
        Walk {
            blocks: heads.saturating_mul(dealt),
            longest: reach.map_or(longest as f64, |reach| reach.min(longest as f64)),
            total: heads as f64 * visible(queries as f64, keys as f64, reach),
            even: !self.causal || queries == 1 || keys == 1,
        }
    }

    /// Blocks of `rows` keys that a block of as many queries sees at most. `None`: all, later ones
    /// too.
    fn reach(&self, rows: u64) -> Option<f64> {
        let within = |window: u64| (window.saturating_sub(1).div_ceil(rows) + 1) as f64;
        self.causal.then(|| self.window.map_or(f64::INFINITY, within))
    }

    /// Keys of a sequence that any query sees.
    fn keys_seen(&self) -> u64 {
        let before = self.window.filter(|_| self.causal).map(|window| window.saturating_sub(1));
        before.map_or(self.keys, |before| self.keys.min(self.queries.saturating_add(before)))
    }

    /// HBM traffic (bytes). Forward: Q and O, K and V, and the fp32 log-sum of every query. Backward: Q, O, dO, dQ; K, V, dK, dV;
    /// dQ once more, summed in fp32 (written and read); log-sum and row sums.
    pub fn bytes(&self) -> u64 {
        let rows = self.batch.saturating_mul(self.heads).saturating_mul(self.queries);
        let keys = self.batch.saturating_mul(self.kv_heads).saturating_mul(self.keys_seen());
        let element = self.dtype.bytes();
        let widths = self.head_dim.saturating_add(self.value_dim);
        // A row of Q and O, or of K and V; a row of dQ in fp32, twice.
        let row = widths.saturating_mul(element);
        let (per_row, per_key) = match self.pass {
            Pass::Forward => (row.saturating_add(4), row),
            Pass::Backward => {
                let summed = self.head_dim.saturating_mul(8);
                (row.saturating_mul(2).saturating_add(summed).saturating_add(8), row.saturating_mul(2))
            }
        };
        rows.saturating_mul(per_row).saturating_add(keys.saturating_mul(per_key)).max(1)
    }
}

/// Pairs (row, column) of a `rows x columns` square that see each other, aligned at the last of
/// both: those on and below the diagonal, of each row the last `reach`. `None`: all.
fn visible(rows: f64, columns: f64, reach: Option<f64>) -> f64 {
    let Some(reach) = reach else { return rows * columns };
    // The last row sees `columns`, each before it one less, until none is left.
    let triangle = |columns: f64| {
        let rows = rows.min(columns);
        rows * columns - rows * (rows - 1.0) / 2.0
    };
    let hidden = (columns - reach).max(0.0);
    triangle(columns) - triangle(hidden)
}
