//! Kernels among which a search chooses, each once: what a device is asked to time.

use std::collections::BTreeMap;

use crate::graph::cut::Cut;

use super::measured::{MeasuredKernel, name_of};
use super::{Cost, Diagnostic, Fusing, MEASURED};

/// A kernel that a search may choose.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Its shape in words.
    pub kernel: String,
    /// Operators of the first group that it is the kernel of, in their order.
    pub members: Vec<String>,
    /// Groups of the model that it is the kernel of.
    pub groups: u64,
    /// Bytes that it reads and writes.
    pub bytes: u64,
    /// Floating-point operations of its products.
    pub flops: f64,
    /// Below which its time cannot be (s).
    pub bound: f64,
    /// Time that it is estimated to take (s), or takes as measured.
    pub time: f64,
}

impl Fusing {
    /// Kernels that the search looks at, in the order in which it comes to them, without those that
    /// the bound rules out. None where nothing is chosen by times.
    pub fn candidates(&self, model: &Cut) -> Vec<Candidate> {
        let Some(prices) = self.prices.as_ref().filter(|_| self.settings.needs_prices()) else {
            return Vec::new();
        };
        let (rules, cost, gap) = (self.settings.rules(), Cost::fastest(prices), prices.0.gap());
        let mut all: Vec<Candidate> = Vec::new();
        let mut places: BTreeMap<String, usize> = BTreeMap::new();
        self.each_list(model, |list, is_asked| {
            let groups = self.priced(list, &rules, &cost).groups;
            for priced in groups.into_iter().filter(|priced| is_asked(&priced.members)) {
                let merged = list.merged(&priced.members, rules.precision);
                if prices.0.seconds(&merged.work).is_none() {
                    continue;
                }
                let kernel = name_of(&merged.work);
                if let Some(&known) = places.get(&kernel) {
                    all[known].groups += 1;
                    continue;
                }
                places.insert(kernel.clone(), all.len());
                let names = priced.members.iter().map(|&n| list.operators[n].name.to_string());
                all.push(Candidate {
                    kernel,
                    members: names.collect(),
                    groups: 1,
                    bytes: merged.work.bytes(),
                    flops: merged.work.flops(),
                    bound: prices.least(list, &priced.members, &rules) - gap,
                    time: priced.cost[0] - gap,
                });
            }
        });
        all
    }

    /// The refusal of measured kernels none of which the model can have.
    pub fn misfits(&self, model: &Cut) -> Option<Diagnostic> {
        let kernels = &self.settings.kernels;
        if kernels.is_empty() {
            return None;
        }
        let (rules, mut fits) = (self.settings.rules(), false);
        let known = |kernel: &str| kernels.iter().any(|MeasuredKernel { kernel: known, .. }| known == kernel);
        self.each_list(model, |list, _| {
            fits = fits
                || (0..list.operators.len()).any(|first| {
                    let groups = list.groups_from(first, &rules.permitted);
                    groups.iter().any(|group| known(&name_of(&list.merged(group, rules.precision).work)))
                });
        });
        let message = "no kernel of the file is one of this model";
        let remedy = "`foretrain show FILE --kernels` lists those that are: time these";
        (!fits).then(|| Diagnostic::new(MEASURED, message, remedy).with("model", ""))
    }
}
