//! Batch sizes: two of three give the third.

use super::Check;
use crate::schema::{Count, MicroBatches, Training};

const GLOBAL: &str = "training.global_batch";
const ONE: &str = "training.micro_batch";
const MICRO_BATCHES: &str = "training.micro_batches";
const ACCUMULATE: &str = "training.accumulate";
/// A setting of pipelines alone, with what copies of a model have in its place.
pub(super) const OF_PIPELINES: (&str, &str) =
    (MICRO_BATCHES, "write `accumulate`: the micro-batches of each copy of the model");
const DATA: &str = "parallelism.data";

/// How samples are dealt out.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Batches {
    /// To one pipeline; samples may be left out.
    Profile,
    /// To so many copies of a model, each of which accumulates.
    Copies(u64),
}

impl Batches {
    fn copies(self) -> u64 {
        match self {
            Self::Profile => 1,
            Self::Copies(copies) => copies,
        }
    }

    /// The setting that says how many micro-batches there are.
    fn many(self) -> &'static str {
        match self {
            Self::Profile => MICRO_BATCHES,
            Self::Copies(_) => ACCUMULATE,
        }
    }

    fn slot(self, training: &mut Training) -> &mut Option<MicroBatches> {
        match self {
            Self::Profile => &mut training.micro_batches,
            Self::Copies(_) => &mut training.accumulate,
        }
    }

    /// " for 8 copies of the model", where there are several.
    fn for_copies(self) -> String {
        match self.copies() {
            1 => String::new(),
            copies => format!(" for {copies} copies of the model"),
        }
    }

    /// "`micro_batch`", or what it is to be multiplied with.
    fn multiple(self, key: &str, number: u64) -> String {
        match self.copies() {
            1 => format!("make `global_batch` a multiple of `{key}`"),
            copies => format!("make `global_batch` a multiple of {}, `{key}` times `data`", number * copies),
        }
    }
}

impl Check<'_> {
    /// Checks the sizes that are written and derives the one that is not.
    pub(super) fn batches(&mut self, training: &mut Training, batches: Batches) {
        let many = *batches.slot(training);
        let sizes = (
            training.global_batch.map(Count::get),
            training.micro_batch.map(Count::get),
            many.map(Count::get),
        );
        match sizes {
            (Some(global), Some(one), Some(many)) => self.all_sizes([global, one, many], batches),
            (Some(global), Some(one), None) => self.derive_many(training, global, one, batches),
            (Some(global), None, Some(many)) => self.derive_one(training, global, many, batches),
            (None, Some(one), Some(many)) => self.derive_global(training, one, many, batches),
            (_, _, None) if batches == Batches::Profile => {
                let help = "add `micro_batches: 24`, or `global_batch` and `micro_batch`";
                let message = "`training` does not say how many micro-batches a step has";
                self.report(&[("training", String::new())], message, help);
            }
            (None, None, Some(_)) if batches == Batches::Profile => {}
            _ => {
                let message = "`training` does not say how large a step is";
                let help = "give two of `global_batch`, `micro_batch` and `accumulate`";
                self.report(&[("training", String::new())], message, help);
            }
        }
    }

    fn all_sizes(&mut self, [global, one, many]: [u64; 3], batches: Batches) {
        let product = one.saturating_mul(many).saturating_mul(batches.copies());
        if global == product {
            return;
        }
        let about = [
            (GLOBAL, format!("{global} samples")),
            (ONE, format!("{one} samples")),
            (batches.many(), format!("{many} of them")),
        ];
        let copies = batches.for_copies();
        let message = format!("{many} micro-batches of {one} samples{copies} are {product}, not {global}");
        self.report(&about, message, "leave out one of the three; it follows from the others");
    }

    fn derive_many(&mut self, training: &mut Training, global: u64, one: u64, batches: Batches) {
        let each = one.saturating_mul(batches.copies());
        match Count::new(global / each).filter(|_| global.is_multiple_of(each)) {
            Some(many) => {
                *batches.slot(training) = Some(many);
                self.derived.insert(batches.many().into(), quotient(global, one, batches));
            }
            None => {
                let mut about = vec![(GLOBAL, format!("{global} samples")), (ONE, format!("{one} samples"))];
                self.add_copies(&mut about, batches);
                let copies = batches.for_copies();
                let message = format!(
                    "a global batch of {global} cannot be cut into 1 to 65536 micro-batches of {one}{copies}"
                );
                self.report(&about, message, batches.multiple("micro_batch", one));
            }
        }
    }

    fn derive_one(&mut self, training: &mut Training, global: u64, many: u64, batches: Batches) {
        let each = many.saturating_mul(batches.copies());
        match Count::new(global / each).filter(|_| global.is_multiple_of(each)) {
            Some(one) => {
                training.micro_batch = Some(one);
                self.derived.insert(ONE.into(), quotient(global, many, batches));
            }
            None => {
                let mut about = vec![
                    (GLOBAL, format!("{global} samples")),
                    (batches.many(), format!("{many} micro-batches")),
                ];
                self.add_copies(&mut about, batches);
                let copies = batches.for_copies();
                let message = format!(
                    "a global batch of {global} cannot be cut into {many} equal micro-batches{copies}"
                );
                let key = batches.many().trim_start_matches("training.");
                self.report(&about, message, batches.multiple(key, many));
            }
        }
    }

    fn derive_global(&mut self, training: &mut Training, one: u64, many: u64, batches: Batches) {
        let product = one.saturating_mul(many).saturating_mul(batches.copies());
        match Count::new(product) {
            Some(global) => {
                training.global_batch = Some(global);
                let copies = match batches {
                    Batches::Profile => String::new(),
                    Batches::Copies(copies) => format!(" x {copies}"),
                };
                self.derived.insert(GLOBAL.into(), format!("{one} x {many}{copies}"));
            }
            None => {
                let about = [(ONE, format!("{one} samples")), (batches.many(), format!("{many} of them"))];
                let copies = batches.for_copies();
                let message = format!(
                    "{many} micro-batches of {one} samples{copies} are more than a global batch of 1000000000"
                );
                self.report(&about, message, "make one of them smaller");
            }
        }
    }

    /// The number of copies, where the file has a say in it.
    fn add_copies(&self, about: &mut Vec<(&str, String)>, batches: Batches) {
        if let Batches::Copies(copies) = batches
            && self.tree.at(&self.keys(DATA)).is_some()
        {
            about.push((DATA, format!("{copies} copies")));
        }
    }
}

fn quotient(global: u64, part: u64, batches: Batches) -> String {
    match batches {
        Batches::Profile => format!("{global} / {part}"),
        Batches::Copies(copies) => format!("{global} / ({part} x {copies})"),
    }
}
