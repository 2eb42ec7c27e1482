//! Compares statements with what was found.

use reports::compared::shares_of_causes;
use reports::naming::Naming;
use reports::quantity;
use reports::summary::{Check, Citation, Difference, FailureKind, Pair, RunSummary, Subject, short_path};
use reports::wording::said;

use super::{
    Cause, DoesNotFit, Equal, Expectation, Faster, Fits, Less, Metric, MetricValue, Order, Selector,
    Statement,
};
use crate::schema::{FigureKind, same_meaning};
use crate::text::source::Sources;

impl Expectation {
    /// Whether the promise holds in `runs`, which are all runs of the experiment.
    pub fn check(&self, runs: &[RunSummary], sources: &Sources) -> Check {
        let found = self.find(runs);
        Check {
            text: self.text(),
            passed: found.holds,
            measured: found.words,
            location: Some(sources.locate(self.mark)),
        }
    }

    /// The published figure beside ours.
    pub fn cite(&self, runs: &[RunSummary]) -> Citation {
        let found = self.find(runs);
        Citation {
            text: self.words(),
            at: self.place(runs),
            source: self.source.clone().unwrap_or_default(),
            published: self.claim(),
            ours: found.words,
            difference: found.difference,
            pair: found.pair,
            subject: self.figure(),
        }
    }

    /// What a figure is about, if it is one of a single variant.
    fn figure(&self) -> Option<Subject> {
        let Statement::Value(MetricValue { metric, of, is: Some(_), .. }) = &self.statement else {
            return None;
        };
        let [variant] = &of.variants[..] else { return None };
        let at = self.at.iter().chain(&of.at).map(|(path, value)| (path.clone(), value.clone()));
        Some(Subject { metric: words_of(*metric), variant: variant.clone(), at: at.collect() })
    }

    /// The whole statement in words.
    fn text(&self) -> String {
        let claim = self.claim();
        match &self.statement {
            Statement::Value(_) => format!("{} is {claim}", self.subject()),
            Statement::Faster(Faster { by: Some(_), .. }) | Statement::Less(Less { by: Some(_), .. }) => {
                format!("{}, {claim}", self.subject())
            }
            Statement::Equal(equal) if equal.within.is_some() => format!("{}, {claim}", self.subject()),
            _ => self.subject(),
        }
    }

    /// Subject of the statement, and its place.
    fn subject(&self) -> String {
        let (words, point) = (self.words(), self.point());
        if point.is_empty() { words } else { format!("{words} at {point}") }
    }

    /// The values of swept paths that the statement is about.
    fn point(&self) -> String {
        let value = |(path, value): (&String, &String)| format!("{} {}", short_path(path), said(value));
        self.at.iter().map(value).collect::<Vec<_>>().join(", ")
    }

    /// Where the statement is about: its values of swept paths, or the points of the runs that it is found at.
    fn place(&self, runs: &[RunSummary]) -> String {
        let point = self.point();
        if !point.is_empty() {
            return point;
        }
        let selectors: Vec<&Selector> = match &self.statement {
            Statement::Faster(faster) if faster.axes().is_empty() => vec![&faster.faster, &faster.than],
            Statement::Less(less) if less.mean_over.is_empty() => vec![&less.less, &less.than],
            Statement::Order(order) => order.order.iter().collect(),
            Statement::Equal(equal) => vec![&equal.equal, &equal.to],
            Statement::Value(value) => vec![&value.of],
            Statement::Faster(_) | Statement::Less(_) | Statement::Fits(_) | Statement::DoesNotFit(_) => {
                Vec::new()
            }
        };
        let scope = Scope { runs, expectation: self };
        let found: Vec<&RunSummary> =
            selectors.into_iter().filter_map(|selector| scope.best(selector).ok()).collect();
        match found.split_first() {
            Some((first, others)) if others.iter().any(|run| run.point != first.point) => {
                "each at its best".to_owned()
            }
            Some((first, _)) => scope.naming(first).point(&first.point),
            None => String::new(),
        }
    }

    /// Subject of the statement, wherever that is.
    fn words(&self) -> String {
        match &self.statement {
            Statement::Faster(faster) => {
                let over = match (faster.mean_over.is_empty(), faster.most_over.is_empty()) {
                    (true, true) => "",
                    (true, false) => " at most",
                    _ => " in the mean",
                };
                format!("{} is faster than {}{over}", faster.faster, faster.than)
            }
            Statement::Less(less) => {
                let of_mean = if less.mean_over.is_empty() { "" } else { " in the mean" };
                let metric = words_of(less.metric);
                format!("{metric} of {} is less than that of {}{of_mean}", less.less, less.than)
            }
            Statement::Order(order) => {
                let names: Vec<String> = order.order.iter().map(Selector::to_string).collect();
                format!("{} rises in the order {}", words_of(order.metric), names.join(", "))
            }
            Statement::Equal(equal) => {
                format!("{} of {} equals that of {}", words_of(equal.metric), equal.equal, equal.to)
            }
            Statement::Value(value) => format!("{} of {}", words_of(value.metric), value.of),
            Statement::Fits(fits) => format!("{} fits", fits.fits),
            Statement::DoesNotFit(fits) => match fits.because {
                Some(cause) => format!("{} does not fit because of {}", fits.does_not_fit, cause.words()),
                None => format!("{} does not fit", fits.does_not_fit),
            },
        }
    }

    /// The figure or range that is claimed.
    fn claim(&self) -> String {
        match &self.statement {
            Statement::Faster(Faster { by: Some(range), .. }) => {
                format!("{} to {} times", range.low, range.high)
            }
            Statement::Faster(_) => "faster".to_owned(),
            Statement::Less(Less { by: Some(range), .. }) => format!("by {} to {}", range.low, range.high),
            Statement::Less(_) => "less".to_owned(),
            Statement::Equal(Equal { within: Some(within), .. }) => format!("within {within}"),
            Statement::Value(MetricValue { between: Some(range), .. }) => {
                format!("between {} and {}", range.low, range.high)
            }
            Statement::Value(MetricValue { is: Some(figure), within: Some(within), .. }) => {
                format!("{figure} within {within}")
            }
            Statement::Value(MetricValue { is: Some(figure), .. }) => figure.text.clone(),
            _ => "yes".to_owned(),
        }
    }

    fn find(&self, runs: &[RunSummary]) -> Found {
        let scope = Scope { runs, expectation: self };
        let found = match &self.statement {
            Statement::Faster(faster) => scope.faster(faster),
            Statement::Less(less) => scope.less(less),
            Statement::Order(order) => scope.order(order),
            Statement::Equal(equal) => scope.equal(equal),
            Statement::Value(value) => scope.value(value),
            Statement::Fits(fits) => Ok(scope.fits(fits)),
            Statement::DoesNotFit(fits) => Ok(scope.does_not_fit(fits)),
        };
        found.unwrap_or_else(|reason| Found::new(false, reason))
    }
}

/// The number of settings that a figure is the mean of.
fn of_mean(points: Option<usize>) -> String {
    points.map_or_else(String::new, |points| format!(", the mean of {points} settings"))
}

/// Why there is nothing to compare.
fn no_pairs(axes: &[String]) -> String {
    format!("no values of {} have results of both", axes.join(" and "))
}

/// What the runs say.
struct Found {
    holds: bool,
    words: String,
    difference: Option<Difference>,
    pair: Option<Pair>,
}

impl Found {
    fn new(holds: bool, words: String) -> Self {
        Self { holds, words, difference: None, pair: None }
    }
}

/// The runs a statement may select from.
struct Scope<'a> {
    runs: &'a [RunSummary],
    expectation: &'a Expectation,
}

impl<'a> Scope<'a> {
    fn faster(&self, statement: &Faster) -> Result<Found, String> {
        let both = [&statement.faster, &statement.than];
        let (ratio, of) = match (statement.axes(), statement.mean_over.is_empty()) {
            ([], _) => (
                throughput(self.best(&statement.faster)?) / throughput(self.best(&statement.than)?),
                of_mean(None),
            ),
            (axes, false) => {
                let (mean, points) = self.mean_ratio(both, axes, |run| Some(throughput(run)))?;
                (mean, of_mean(Some(points)))
            }
            (axes, true) => {
                let pairs = self.pairs(both, axes)?;
                let ratio = |&[ours, other]: &[&RunSummary; 2]| throughput(ours) / throughput(other);
                let most = pairs.into_iter().max_by(|a, b| ratio(a).total_cmp(&ratio(b)));
                let most = most.ok_or_else(|| no_pairs(axes))?;
                let [ours, other] = most;
                let causes = shares_of_causes(other, ours);
                (ratio(&most), format!(", {} over {}: {causes}", self.name_of(ours), other.variant))
            }
        };
        let (low, high) =
            statement.by.as_ref().map_or((1.0, f64::INFINITY), |range| (range.low.value, range.high.value));
        let holds = if statement.by.is_some() { (low..=high).contains(&ratio) } else { ratio > 1.0 };
        Ok(Found::new(holds, format!("{} times{of}", quantity::significant(ratio))))
    }

    /// The mean ratio of a figure of two runs over the values of some axes at which both have it,
    /// and the number of these.
    fn mean_ratio(
        &self,
        both: [&Selector; 2],
        axes: &[String],
        figure: impl Fn(&RunSummary) -> Option<f64>,
    ) -> Result<(f64, usize), String> {
        let pairs = self.pairs(both, axes)?;
        let ratios: Vec<f64> =
            pairs.iter().filter_map(|[one, other]| Some(figure(one)? / figure(other)?)).collect();
        match ratios.len() {
            0 => Err(no_pairs(axes)),
            points => Ok((ratios.iter().sum::<f64>() / points as f64, points)),
        }
    }

    /// By the values of some axes at which two selections have a result, the best run of each.
    fn pairs(&self, both: [&Selector; 2], axes: &[String]) -> Result<Vec<[&'a RunSummary; 2]>, String> {
        let of = |run: &'a RunSummary| -> Option<Vec<&'a String>> {
            axes.iter().map(|axis| run.point.get(axis)).collect()
        };
        let best = |selector: &Selector, at: &[&String]| {
            let here =
                self.select(selector).into_iter().filter(|run| of(run).is_some_and(|point| point == at));
            let with_result = here.filter(|run| run.step_time().is_some());
            with_result.max_by(|a, b| throughput(a).total_cmp(&throughput(b)))
        };
        let mut points: Vec<Vec<&String>> = Vec::new();
        for point in self.select(both[1]).into_iter().filter_map(of) {
            if !points.contains(&point) {
                points.push(point);
            }
        }
        let pair = |point: &Vec<&String>| Some([best(both[0], point)?, best(both[1], point)?]);
        let pairs: Vec<_> = points.iter().filter_map(pair).collect();
        if pairs.is_empty() { Err(no_pairs(axes)) } else { Ok(pairs) }
    }

    fn less(&self, statement: &Less) -> Result<Found, String> {
        let (less, than, metric) = (&statement.less, &statement.than, statement.metric);
        let (ratio, points) = match statement.mean_over.as_slice() {
            [] => (self.metric(less, metric)? / self.metric(than, metric)?, None),
            axes => {
                let (mean, points) = self.mean_ratio([less, than], axes, |run| metric.of(run))?;
                (mean, Some(points))
            }
        };
        let share = 1.0 - ratio;
        let by = statement.by.as_ref();
        let holds = by.map_or(share > 0.0, |range| (range.low.value..=range.high.value).contains(&share));
        Ok(Found::new(holds, format!("by {}{}", quantity::percent(share), of_mean(points))))
    }

    fn order(&self, statement: &Order) -> Result<Found, String> {
        let values: Vec<f64> = statement
            .order
            .iter()
            .map(|selector| self.metric(selector, statement.metric))
            .collect::<Result<_, _>>()?;
        let words: Vec<String> = values.iter().map(|&value| print(statement.metric, value, None)).collect();
        Ok(Found::new(values.windows(2).all(|pair| pair[0] < pair[1]), words.join(", ")))
    }

    fn equal(&self, statement: &Equal) -> Result<Found, String> {
        let ours = self.metric(&statement.equal, statement.metric)?;
        let theirs = self.metric(&statement.to, statement.metric)?;
        let tolerance = statement.within.map_or(0.0, crate::schema::Share::as_f64);
        let print = |value| print(statement.metric, value, None);
        Ok(Found::new(
            (ours - theirs).abs() <= tolerance * theirs.abs(),
            format!("{} and {}", print(ours), print(theirs)),
        ))
    }

    fn value(&self, statement: &MetricValue) -> Result<Found, String> {
        let ours = self.metric(&statement.of, statement.metric)?;
        let Some(figure) = &statement.is else {
            let holds = statement
                .between
                .as_ref()
                .is_some_and(|range| (range.low.value..=range.high.value).contains(&ours));
            return Ok(Found::new(holds, print(statement.metric, ours, None)));
        };
        let published = figure.value;
        let tolerance = statement.within.map_or(0.0, crate::schema::Share::as_f64);
        let difference = match statement.metric.is_share() {
            true => Difference::Points(ours - published),
            false => Difference::Relative((ours - published) / published),
        };
        Ok(Found {
            holds: (ours - published).abs() <= tolerance * published.abs(),
            words: print(statement.metric, ours, (!figure.text.contains(' ')).then(|| figure.decimals())),
            difference: Some(difference).filter(|_| published != 0.0 || statement.metric.is_share()),
            pair: Some(Pair { published, ours }),
        })
    }

    fn fits(&self, statement: &Fits) -> Found {
        let runs = self.select(&statement.fits);
        let misfits: Vec<&RunSummary> = runs.iter().copied().filter(|run| !run.fits).collect();
        let several = statement.fits.variants.len() > 1;
        let holds = if several { misfits.len() < runs.len() } else { misfits.is_empty() };
        Found::new(holds && !runs.is_empty(), self.tell_misfits(runs.len(), &misfits))
    }

    fn does_not_fit(&self, statement: &DoesNotFit) -> Found {
        let runs = self.select(&statement.does_not_fit);
        let misfits: Vec<&RunSummary> = runs.iter().copied().filter(|run| !run.fits).collect();
        let right = |run: &&&RunSummary| match (statement.because, &run.failure) {
            (None, _) => true,
            (Some(cause), failure) => failure.as_ref().is_some_and(|failure| failure.kind == cause.kind()),
        };
        let holds = !runs.is_empty() && misfits.iter().filter(right).count() == runs.len();
        Found::new(holds, self.tell_misfits(runs.len(), &misfits))
    }

    fn metric(&self, selector: &Selector, metric: Metric) -> Result<f64, String> {
        let run = self.best(selector)?;
        metric.of(run).ok_or_else(|| format!("{} has no {metric}", self.name_of(run)))
    }

    fn tell_misfits(&self, runs: usize, misfits: &[&RunSummary]) -> String {
        match (runs, misfits) {
            (0, _) => "no such run".to_owned(),
            (_, []) => "fits".to_owned(),
            (_, [first, ..]) => {
                let reason =
                    first.failure.as_ref().map_or("it does not fit", |failure| failure.message.as_str());
                match (runs, misfits.len()) {
                    (1, _) => reason.to_owned(),
                    (all, misfits) => {
                        format!("{misfits} of {all} runs do not fit; {}: {reason}", self.name_of(first))
                    }
                }
            }
        }
    }

    /// A run, by what tells it apart.
    fn name_of(&self, run: &RunSummary) -> String {
        self.naming(run).run(run)
    }

    /// Words for points with the axes of a run.
    fn naming(&self, run: &RunSummary) -> Naming {
        let axes: Vec<String> = run.point.keys().cloned().collect();
        Naming::of(self.runs, &axes)
    }

    /// The feasible run of highest throughput.
    fn best(&self, selector: &Selector) -> Result<&'a RunSummary, String> {
        let feasible = self.select(selector).into_iter().filter(|run| run.step_time().is_some());
        feasible
            .reduce(|best, run| if throughput(run) > throughput(best) { run } else { best })
            .ok_or_else(|| format!("{selector} has no run that fits"))
    }

    fn select(&self, selector: &Selector) -> Vec<&'a RunSummary> {
        let point = || self.expectation.at.iter().chain(&selector.at);
        let here = |run: &&RunSummary| {
            selector.variants.contains(&run.variant)
                && point()
                    .all(|(path, value)| run.point.get(path).is_some_and(|have| same_meaning(have, value)))
        };
        self.runs.iter().filter(here).collect()
    }
}

/// Samples per second where samples are known, micro-batches per second elsewhere.
fn throughput(run: &RunSummary) -> f64 {
    let of_work = Metric::SamplesPerS.of(run).or_else(|| Metric::MicroBatchesPerS.of(run));
    // Of a trace it is not known how many samples a step has.
    of_work.or_else(|| run.step_time().map(f64::recip)).unwrap_or(0.0)
}

/// A value of `metric` in words, with as many decimals as a published one has.
fn print(metric: Metric, value: f64, decimals: Option<usize>) -> String {
    match (decimals, metric.kind()) {
        (Some(decimals), _) => format!("{value:.decimals$}"),
        (None, FigureKind::Seconds) => quantity::seconds(value),
        (None, FigureKind::Bytes) => quantity::bytes(value as u64),
        (None, _) if metric.is_share() => quantity::percent(value),
        (None, _) => quantity::significant(value),
    }
}

/// `step_time_s` as "step time".
fn words_of(metric: Metric) -> String {
    let name = metric.to_string();
    let unit = || ["_s", "_bytes", "_w", "_j"].into_iter().find_map(|unit| name.strip_suffix(unit));
    let words = match name.strip_suffix("_per_s") {
        Some(counted) => format!("{counted} per second"),
        None => unit().unwrap_or(&name).to_owned(),
    };
    words.replace('_', " ")
}

impl Cause {
    fn kind(self) -> FailureKind {
        match self {
            Self::GpuMemory => FailureKind::OutOfMemory,
            Self::Deadlock => FailureKind::Deadlock,
            Self::Limit => FailureKind::Limit,
            Self::Infeasible => FailureKind::Infeasible,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::GpuMemory => "GPU memory",
            Self::Deadlock => "a deadlock",
            Self::Limit => "a limit",
            Self::Infeasible => "sizes that do not multiply",
        }
    }
}
