//! Scores of attention in memory: a product, passes over them, a product with the values; and back.

use crate::graph::Phase;
use crate::graph::operator::{self, Dtype, Layout, Pass, StreamClass, Work};
use crate::model::draft::Draft;

use super::layer::Distances;
use super::tape::{Reverse, SINGLE, Value};
use crate::model::names::{Name, name};
use crate::model::views;

const COPY: StreamClass = StreamClass::Elementwise;
/// Least bytes that memory transfers (CUDA C++ Best Practices Guide, section 10.2.1).
const SECTOR: u64 = 32;

/// The scores of a layer.
#[derive(Clone, Copy)]
pub(super) struct Scores {
    pub(super) layer: Name,
    pub(super) batch: u64,
    pub(super) heads: u64,
    pub(super) queries: u64,
    pub(super) keys: u64,
    pub(super) head_dim: u64,
    /// Width of the tokens.
    pub(super) width: u64,
    pub(super) causal: bool,
    pub(super) dropout: bool,
    pub(super) distances: Option<Distances>,
    /// Whether biases for distances are as they were looked up, with heads side by side.
    pub(super) gathered_biases: bool,
    pub(super) dtype: Dtype,
}

impl Scores {
    /// Width of all heads.
    pub(super) const fn inner(&self) -> u64 {
        self.heads * self.head_dim
    }

    /// Bytes of the fp32 log-sum of every query and head.
    pub(super) const fn log_sums(&self) -> u64 {
        SINGLE * self.batch * self.heads * self.queries
    }

    /// Bytes of a bias for every score, the same for all samples.
    pub(super) const fn bias_bytes(&self) -> u64 {
        self.heads * self.queries * self.keys * self.dtype.bytes()
    }

    /// Bytes that are read to add biases. Rows of a table, one for every distance, have the heads side by side; seen head by
    /// head each element is in a sector of memory of its own, which is gone when the next head comes. A layer that holds
    /// biases head by head reads them once.
    const fn bias_traffic(&self) -> u64 {
        if self.gathered_biases { SECTOR * self.elements() } else { self.bias_bytes() }
    }

    pub(super) const fn flash(&self, backward: bool) -> Work {
        let &Self { batch, heads, queries, keys, head_dim, causal, dtype, .. } = self;
        let pass = if backward { Pass::Backward } else { Pass::Forward };
        let kv_heads = heads;
        Work::Attention(operator::Attention {
            pass,
            batch,
            heads,
            kv_heads,
            queries,
            keys,
            head_dim,
            value_dim: head_dim,
            causal,
            window: None,
            dtype,
        })
    }

    /// Names and sizes of the gradients of what the scores were made of: one part, or query, key and value.
    pub(super) fn gradients(
        &self,
        parts: &[Value],
        bytes: impl Fn(&Value) -> u64,
    ) -> (Vec<Name>, Vec<(Name, u64)>) {
        let names: Vec<Name> = parts.iter().map(|part| name(part.tensor, "gradient")).collect();
        let sized = names.iter().copied().zip(parts.iter().map(bytes)).collect();
        (names, sized)
    }

    /// The gradients that [`Scores::backward`] leaves, by head.
    pub(super) fn by_head_gradients(&self) -> [Name; 3] {
        ["query gradient by head", "key gradient by head", "value gradient by head"]
            .map(|what| name(self.layer, what))
    }

    const fn elements(&self) -> u64 {
        self.batch * self.heads * self.queries * self.keys
    }

    /// Bytes of the queries, or of anything of their size.
    const fn query_bytes(&self) -> u64 {
        self.batch * self.queries * self.inner() * self.dtype.bytes()
    }

    const fn key_bytes(&self) -> u64 {
        self.batch * self.keys * self.inner() * self.dtype.bytes()
    }

    /// Distances from the first to the last token and back.
    const fn distances(&self) -> u64 {
        self.queries + self.keys - 1
    }

    fn encoded(&self) -> bool {
        self.distances == Some(Distances::Encodings)
    }

    /// From tensors `by_head` to the weighted values by head, whose name is returned.
    pub(super) fn forward(&self, draft: &mut Draft, by_head: &[Name]) -> Name {
        let of = |what| name(self.layer, what);
        let (batch, bytes) = (self.batch * self.heads, self.elements() * self.dtype.bytes());
        let (query, value) = (by_head[0], by_head[by_head.len() - 1]);
        let key = by_head[by_head.len() / 2];
        let raw = of("scores");
        let product = (batch, self.queries, self.keys, self.head_dim);
        let queries = if self.encoded() { of("query with key vector") } else { query };
        if self.encoded() {
            self.encode(draft, query);
        }
        let operands = [queries, key];
        draft.gemm(raw, product, (self.dtype, Layout::Forward), &operands, &[(raw, bytes)]).views =
            views::OF_QUERIES_AND_KEYS;
        match self.distances {
            None => draft.stream(of("scale"), COPY, (bytes, bytes), &[raw], &[]),
            Some(Distances::Bias | Distances::SharedBias) => {
                let traffic = (bytes + self.bias_traffic(), bytes);
                draft.stream(of("add biases"), COPY, traffic, &[raw], &[])
            }
            Some(Distances::Encodings) => {
                let reads = [raw, of("shifted distance scores")];
                draft.stream(of("add distance scores"), COPY, (2 * bytes, bytes), &reads, &[])
            }
        };
        // Biases for distances have the mask with them.
        if self.causal && (self.distances.is_none() || self.encoded()) {
            draft.stream(of("mask"), COPY, (bytes, bytes), &[raw], &[]);
        }
        let probabilities = of("probabilities");
        let softmax = (StreamClass::Softmax, batch * self.queries);
        draft.walk(probabilities, softmax, (bytes, bytes), &[raw], &[(probabilities, bytes)]);
        if self.dropout {
            let (dropped, mask, elements) = (of("dropped"), of("dropout mask"), self.elements());
            let writes = [(dropped, bytes), (mask, elements)];
            draft.stream(dropped, COPY, (bytes, bytes + elements), &[probabilities], &writes);
        }
        let result = of("context by head");
        let product = (batch, self.queries, self.head_dim, self.keys);
        let reads = [self.weights(), value];
        let writes = [(result, self.query_bytes())];
        let layout = (self.dtype, Layout::InputGradient);
        draft.gemm(of("value product"), product, layout, &reads, &writes).views = views::OF_VALUES;
        result
    }

    /// What values are weighted with.
    fn weights(&self) -> Name {
        name(self.layer, if self.dropout { "dropped" } else { "probabilities" })
    }

    /// Scores of queries with encodings of distances, shifted so that each meets its key (Dai et al., ACL 2019, appendix B).
    fn encode(&self, draft: &mut Draft, query: Name) {
        let of = |what| name(self.layer, what);
        let (batch, distances) = (self.batch * self.heads, self.distances());
        let (bytes, forward) = (self.query_bytes(), (self.dtype, Layout::Forward));
        for result in [of("query with key vector"), of("query with distance vector")] {
            draft.stream(result, COPY, (bytes, bytes), &[query], &[(result, bytes)]);
        }
        let encodings = of("distance encodings");
        let size = distances * self.inner() * self.dtype.bytes();
        draft.gemm(encodings, (1, distances, self.inner(), self.width), forward, &[], &[(encodings, size)]);
        let (raw, shifted) = (of("distance scores"), of("shifted distance scores"));
        let size = batch * self.queries * distances * self.dtype.bytes();
        let product = (batch, self.queries, distances, self.head_dim);
        let reads = [of("query with distance vector"), encodings];
        draft.gemm(raw, product, forward, &reads, &[(raw, size)]);
        draft.stream(shifted, COPY, (size, size), &[raw], &[(shifted, size)]);
    }

    /// From the gradient of the merged heads to those of queries, keys and values by head.
    pub(super) fn backward(&self, reverse: &mut Reverse<'_>, by_head: &[Name], gradient: Name) {
        let of = |what| name(self.layer, what);
        let [query_gradient, key_gradient, value_gradient] = self.by_head_gradients();
        let draft = &mut reverse.draft;
        let (batch, elements) = (self.batch * self.heads, self.elements());
        let (bytes, dtype) = (elements * self.dtype.bytes(), self.dtype);
        let (query, value) = (by_head[0], by_head[by_head.len() - 1]);
        let key = by_head[by_head.len() / 2];
        let (query_bytes, key_bytes) = (self.query_bytes(), self.key_bytes());
        let split = of("gradient by head");
        draft.stream(split, COPY, (query_bytes, query_bytes), &[gradient], &[(split, query_bytes)]).views =
            views::OF_CONTEXT;
        let incoming = of("weights gradient");
        let product = (batch, self.queries, self.keys, self.head_dim);
        draft.gemm(incoming, product, (dtype, Layout::Forward), &[split, value], &[(incoming, bytes)]);
        let transposed = (batch, self.keys, self.head_dim, self.queries);
        let (reads, weight) = ([self.weights(), split], (dtype, Layout::WeightGradient));
        draft.gemm(value_gradient, transposed, weight, &reads, &[(value_gradient, key_bytes)]).views =
            views::OF_VALUES;
        let mut of_probabilities = incoming;
        if self.dropout {
            of_probabilities = of("probabilities gradient");
            let (traffic, writes) = ((bytes + elements, bytes), [(of_probabilities, bytes)]);
            draft.stream(of_probabilities, COPY, traffic, &[incoming, of("dropout mask")], &writes);
        }
        // PyTorch multiplies both before the kernel that sums over rows (`softmax_backward_cuda_out`).
        let (of_scores, product) = (of("scores gradient"), of("probabilities times gradient"));
        let reads = [of("probabilities"), of_probabilities];
        draft.stream(product, COPY, (2 * bytes, bytes), &reads, &[(product, bytes)]);
        let reads = [reads[0], product];
        let softmax = (StreamClass::Softmax, batch * self.queries);
        draft.walk(of_scores, softmax, (2 * bytes, bytes), &reads, &[(of_scores, bytes)]);
        if self.causal {
            draft.stream(of("mask gradient"), COPY, (bytes, bytes), &[of_scores], &[]);
        }
        if self.distances.is_none() {
            draft.stream(of("scale gradient"), COPY, (bytes, bytes), &[of_scores], &[]);
        }
        let back = (batch, self.queries, self.head_dim, self.keys);
        let input = (dtype, Layout::InputGradient);
        draft.gemm(query_gradient, back, input, &[of_scores, key], &[(query_gradient, query_bytes)]);
        let queries = if self.encoded() { of("query with key vector") } else { query };
        let writes = [(key_gradient, key_bytes)];
        draft.gemm(key_gradient, transposed, weight, &[of_scores, queries], &writes).views =
            views::OF_QUERIES_AND_KEYS;
        match self.distances {
            Some(Distances::Bias | Distances::SharedBias) => {
                // Over samples; the attention that owns the table scatters the sum into it.
                let (sum, traffic) = (of("biases gradient"), (bytes, self.bias_bytes()));
                draft.within(Phase::BackwardWeight, |draft| {
                    draft.stream(sum, StreamClass::Reduction, traffic, &[of_scores], &[]);
                });
            }
            Some(Distances::Encodings) => self.encode_gradient(reverse, of_scores, query_gradient),
            None => {}
        }
    }

    fn encode_gradient(&self, reverse: &mut Reverse<'_>, of_scores: Name, of_query: Name) {
        let of = |what| name(self.layer, what);
        let (batch, distances, dtype) = (self.batch * self.heads, self.distances(), self.dtype);
        let (size, bytes) = (batch * self.queries * distances * dtype.bytes(), self.query_bytes());
        let (encodings, with) = (of("distance encodings"), of("query with distance vector"));
        let draft = &mut reverse.draft;
        let unshifted = of("distance scores gradient");
        draft.stream(unshifted, COPY, (size, size), &[of_scores], &[(unshifted, size)]);
        let second = of("distance query gradient");
        let product = (batch, self.queries, self.head_dim, distances);
        let input = (dtype, Layout::InputGradient);
        draft.gemm(second, product, input, &[unshifted, encodings], &[(second, bytes)]);
        draft.stream(of("add query gradients"), COPY, (2 * bytes, bytes), &[of_query, second], &[]);
        let each = of("distance encodings gradient of samples");
        let of_encodings = of("distance encodings gradient");
        let of_matrix = of("distance matrix gradient");
        let encoded = self.batch * distances * self.inner() * dtype.bytes();
        let weights = self.inner() * self.width;
        let weight = (dtype, Layout::WeightGradient);
        let product = (batch, distances, self.head_dim, self.queries);
        draft.gemm(each, product, weight, &[unshifted, with], &[(each, encoded)]);
        draft.within(Phase::BackwardWeight, |draft| {
            let writes = [(of_encodings, encoded / self.batch)];
            let traffic = (encoded, encoded / self.batch);
            draft.stream(of_encodings, StreamClass::Reduction, traffic, &[each], &writes);
            let writes = [(of_matrix, weights * dtype.bytes())];
            draft.gemm(of_matrix, (1, self.inner(), self.width, distances), weight, &[of_encodings], &writes);
        });
        reverse.accumulate(of_matrix, weights);
        for (gradient, what) in [(of_query, "key vector gradient"), (second, "distance vector gradient")] {
            reverse.reduced(self.layer, what, &[gradient], bytes, (self.inner(), 1));
        }
    }
}
