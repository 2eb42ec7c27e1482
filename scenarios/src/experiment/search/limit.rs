//! Limits of a search: `peak_memory <= 76 GiB`.

use reports::summary::RunSummary;
use serde_json::json;

use crate::expectation::Metric;
use crate::schema::{Figure, FigureKind};
use crate::text::node::{Node, Value, shorten};
use crate::text::problem::Problem;

/// A limit that the result of a plan must keep.
#[derive(Clone, Debug)]
pub(crate) struct Limit {
    figure: Limited,
    at_most: bool,
    bound: f64,
    /// As written.
    pub(crate) text: String,
}

/// A figure that may be limited.
#[derive(Clone, Copy, Debug)]
enum Limited {
    Metric(Metric),
    /// GPUs with ranks.
    Gpus,
    /// The interval of the step time, from end to end, over the step time.
    IntervalWidth,
}

/// Units that names of metrics end in, which a limit may leave out.
const UNITS: [&str; 5] = ["", "_s", "_bytes", "_per_s", "_years"];

/// The limits of `subject_to`, which is a list of texts.
pub(super) fn read(list: &Node, problems: &mut Vec<Problem>) -> Vec<Limit> {
    let Value::List(items) = &list.value else { return Vec::new() };
    let limit = |item: &Node| match Limit::parse(item.as_text()?) {
        Ok(limit) => Some(limit),
        Err((message, help)) => {
            problems.push(Problem::new(item.mark, message).help(help));
            None
        }
    };
    items.iter().filter_map(limit).collect()
}

impl Limit {
    fn parse(text: &str) -> Result<Self, (String, &'static str)> {
        const FORM: &str = "write a figure of the result, `<=` or `>=`, and a value: `peak_memory <= 76 GiB`";
        let (at_most, parts) = match (text.split_once("<="), text.split_once(">=")) {
            (Some(parts), None) => (true, parts),
            (None, Some(parts)) => (false, parts),
            _ => return Err((format!("`{}` is no limit", shorten(text)), FORM)),
        };
        let (name, value) = (parts.0.trim(), parts.1.trim());
        let figure = Limited::named(name).ok_or_else(|| {
            let message = format!("results have no figure `{}` to limit", shorten(name));
            (
                message,
                "write `gpus`, `interval_width` or a figure of runs in results.json, such as `peak_memory`",
            )
        })?;
        let bound =
            Figure::parse(value).ok_or_else(|| (format!("`{}` is no value", shorten(value)), FORM))?;
        if bound.kind != figure.kind() {
            let message = format!("`{name}` is limited by {}, not by {bound}", figure.kind().noun());
            return Err((message, "write a value with its unit"));
        }
        Ok(Self { figure, at_most, bound: bound.value, text: text.trim().to_owned() })
    }

    /// Most time of a step that it allows (s), where it limits that.
    pub(crate) fn most_step_time(&self) -> Option<f64> {
        let of_step = matches!(self.figure, Limited::Metric(Metric::StepTimeS)) && self.at_most;
        of_step.then_some(self.bound)
    }

    /// True if a run of a plan on so many GPUs keeps it; a figure that it does not have is not kept.
    pub(crate) fn holds(&self, run: &RunSummary, gpus: u64) -> bool {
        let value = match self.figure {
            Limited::Metric(metric) => metric.of(run),
            Limited::Gpus => Some(gpus as f64),
            Limited::IntervalWidth => {
                let interval = run.step_time_interval_s.zip(run.step_time());
                interval.map(|([least, most], time)| (most - least) / time)
            }
        };
        value.is_some_and(|value| if self.at_most { value <= self.bound } else { value >= self.bound })
    }
}

impl Limited {
    fn named(name: &str) -> Option<Self> {
        match name {
            "gpus" => Some(Self::Gpus),
            "interval_width" => Some(Self::IntervalWidth),
            _ => UNITS.iter().find_map(|unit| {
                let metric = serde_json::from_value(json!(format!("{name}{unit}")));
                metric.ok().map(Self::Metric)
            }),
        }
    }

    fn kind(self) -> FigureKind {
        match self {
            Self::Metric(metric) => metric.kind(),
            Self::Gpus | Self::IntervalWidth => FigureKind::Number,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_comparisons_of_figures() {
        let run = RunSummary {
            fits: true,
            step_time_s: Some(2.0),
            step_time_interval_s: Some([1.5, 2.5]),
            mfu: Some(0.5),
            ..RunSummary::default()
        };
        let holds = |text: &str| Limit::parse(text).map(|limit| limit.holds(&run, 64)).ok();
        assert_eq!(holds("step_time <= 2 s"), Some(true));
        assert_eq!(holds("step_time_s <= 1999 ms"), Some(false));
        assert_eq!(holds("mfu >= 45 %"), Some(true));
        assert_eq!(holds("gpus <= 63"), Some(false));
        assert_eq!(holds("interval_width <= 50 %"), Some(true));
        assert_eq!(holds("peak_memory <= 1 GiB"), Some(false), "the run does not tell");
        for wrong in ["step_time", "step_time <= 2 GB", "wall <= 2", "mfu <= x", "1 <= mfu <= 2"] {
            assert_eq!(holds(wrong), None, "{wrong}");
        }
    }
}
