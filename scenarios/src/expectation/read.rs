//! Reads `expect` and `published`, and checks that what they name exists.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use hw_models::catalogue::nearest;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use super::selector::PointValue;
use super::{DoesNotFit, Equal, Expectation, Faster, Fits, Less, MetricValue, Order, Range, Statement};
use crate::experiment::sweep::Axis;
use crate::schema::shape::Shape;
use crate::schema::{Figure, FigureKind, document};
use crate::text::decode::{Decoded, decode};
use crate::text::node::{Entry, Map, Node, Value, shorten};
use crate::text::problem::Problem;

/// What statements may refer to.
pub(crate) struct Names<'a> {
    /// Variants, in the order of the file.
    pub(crate) variants: Vec<&'a str>,
    pub(crate) axes: &'a [Axis],
}

impl<'a> Names<'a> {
    /// The swept paths.
    pub(crate) fn swept(&self) -> Vec<&'a str> {
        self.axes.iter().flat_map(|axis| axis.paths.iter().map(String::as_str)).collect()
    }
}

/// The keys by which a form is known; `metric` comes last because other forms have it too.
const FORMS: [&str; 7] = ["faster", "less", "order", "equal", "fits", "does_not_fit", "metric"];

static SCHEMAS: LazyLock<BTreeMap<&str, Json>> = LazyLock::new(|| {
    BTreeMap::from([
        ("faster", document::of::<Faster>()),
        ("less", document::of::<Less>()),
        ("order", document::of::<Order>()),
        ("equal", document::of::<Equal>()),
        ("fits", document::of::<Fits>()),
        ("does_not_fit", document::of::<DoesNotFit>()),
        ("metric", document::of::<MetricValue>()),
        ("at", document::of::<BTreeMap<String, PointValue>>()),
    ])
});

/// The statements of `list`, which stands under `key`: `expect` or `published`.
pub(crate) fn read(
    list: &Node,
    key: &str,
    names: &Names<'_>,
    problems: &mut Vec<Problem>,
) -> Vec<Expectation> {
    let Value::List(items) = &list.value else {
        let message = format!("`{key}` must be a list, not {}", list.value.describe());
        problems.push(Problem::new(list.mark, message).help("begin each statement with `- `"));
        return Vec::new();
    };
    let cited = key == "published";
    let read = |(index, item): (usize, &Node)| {
        let mut reader = Reading { name: format!("{key}[{index}]"), item, names, problems };
        reader.expectation(cited)
    };
    items.iter().enumerate().filter_map(read).collect()
}

struct Reading<'a> {
    name: String,
    item: &'a Node,
    names: &'a Names<'a>,
    problems: &'a mut Vec<Problem>,
}

impl Reading<'_> {
    fn expectation(&mut self, cited: bool) -> Option<Expectation> {
        let Value::Map(map) = &self.item.value else {
            let message = format!("`{}` must be a map, not {}", self.name, self.item.value.describe());
            self.problems
                .push(Problem::new(self.item.mark, message).help("write for example `{ fits: VARIANT }`"));
            return None;
        };
        let mark = self.item.beginning();
        let mut rest = map.clone();
        let at = rest.shift_remove("at");
        let source = rest.shift_remove("source");
        let source = self.source(source.as_ref(), cited, mark);
        let at = at.map_or_else(BTreeMap::new, |at| self.at(&at));
        let statement = self.statement(&Node::new(mark, Value::Map(rest)))?;
        Some(Expectation { statement, at, source, mark })
    }

    fn source(
        &mut self,
        source: Option<&Entry>,
        cited: bool,
        mark: crate::text::source::Mark,
    ) -> Option<String> {
        let problem = match (source, cited) {
            (Some(entry), true) => match entry.node.as_text().filter(|text| !text.trim().is_empty()) {
                Some(text) => return Some(text.to_owned()),
                None => Problem::new(entry.node.mark, format!("`{}.source` must be a text", self.name)),
            },
            (None, true) => Problem::new(mark, format!("`{}` names no source", self.name))
                .help("add `source: \"authors, year, table or figure\"`"),
            (Some(entry), false) => {
                Problem::new(entry.key, format!("`{}` is a promise and takes no source", self.name))
                    .help("move figures of others to `published:`")
            }
            (None, false) => return None,
        };
        self.problems.push(problem);
        None
    }

    fn at(&mut self, at: &Entry) -> BTreeMap<String, String> {
        self.check_point(&at.node);
        let shape = Shape::of(&SCHEMAS["at"]);
        let name = format!("{}.at", self.name);
        let point: Option<Decoded<BTreeMap<String, PointValue>>> =
            decode(&at.node, shape, &name, self.problems);
        point.map_or_else(BTreeMap::new, |point| {
            point.value.into_iter().map(|(path, value)| (path, value.0)).collect()
        })
    }

    fn statement(&mut self, item: &Node) -> Option<Statement> {
        let map = item.as_map()?;
        let Some(form) = FORMS.into_iter().find(|form| map.contains_key(*form)) else {
            let word = map.keys().next().map_or("", String::as_str);
            let message = format!("`{}` makes no statement", self.name);
            let help = match nearest::closest(word, FORMS) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("a statement has one of {}", nearest::list(FORMS)),
            };
            self.problems.push(Problem::new(item.mark, message).help(help));
            return None;
        };
        self.check_variants(map);
        match form {
            "faster" => self.form(item, form, Statement::Faster),
            "less" => self.form(item, form, Statement::Less),
            "order" => self.form(item, form, Statement::Order),
            "equal" => self.form(item, form, Statement::Equal),
            "fits" => self.form(item, form, Statement::Fits),
            "does_not_fit" => self.form(item, form, Statement::DoesNotFit),
            _ => self.form(item, form, Statement::Value),
        }
    }

    fn form<T: DeserializeOwned>(
        &mut self,
        item: &Node,
        form: &str,
        wrap: fn(T) -> Statement,
    ) -> Option<Statement> {
        let before = self.problems.len();
        let decoded = decode::<T>(item, Shape::of(&SCHEMAS[form]), &self.name, self.problems)?;
        if self.problems.len() > before {
            return None;
        }
        let statement = wrap(decoded.value);
        self.check_figures(&statement, item);
        Some(statement)
    }

    /// Every name of a variant, wherever in the statement it stands.
    fn check_variants(&mut self, map: &Map) {
        const SELECTORS: [&str; 9] =
            ["faster", "less", "than", "order", "equal", "to", "of", "fits", "does_not_fit"];
        for node in SELECTORS.iter().filter_map(|key| map.get(*key)).map(|entry| &entry.node) {
            self.check_selector(node);
        }
    }

    fn check_selector(&mut self, node: &Node) {
        match &node.value {
            Value::Text(name) if !self.names.variants.contains(&name.as_str()) => {
                let message = format!("`{}` names no variant: `{}`", self.name, shorten(name));
                let help = nearest::remedy(name, &self.names.variants, "variant");
                self.problems.push(Problem::new(node.mark, message).help(help));
            }
            Value::List(items) => items.iter().for_each(|item| self.check_selector(item)),
            Value::Map(map) => {
                if let Some(entry) = map.get("best_of") {
                    self.check_selector(&entry.node);
                }
                if let Some(entry) = map.get("at") {
                    self.check_point(&entry.node);
                }
            }
            _ => {}
        }
    }

    /// A point must lie on the axes of the sweep.
    fn check_point(&mut self, at: &Node) {
        for (path, entry) in at.as_map().into_iter().flatten() {
            let found = entry.node.value.plain();
            let problem = match self.names.axes.iter().find(|axis| axis.paths.contains(path)) {
                None => Problem::new(entry.key, format!("`{}` is not swept", shorten(path)))
                    .help(nearest::remedy(path, &self.names.swept(), "swept path")),
                Some(axis) if !axis.has(path, &found) => {
                    let values = axis.first_values(path, 12);
                    let verb = if values.len() as u64 == axis.len() { "are" } else { "begin with" };
                    Problem::new(
                        entry.node.mark,
                        format!("no point of the sweep has `{path}: {}`", shorten(&found)),
                    )
                    .help(format!("its values {verb} {}", nearest::list(values.iter().map(String::as_str))))
                }
                Some(_) => continue,
            };
            self.problems.push(problem);
        }
    }

    /// Bounds must measure what the metric measures.
    fn check_figures(&mut self, statement: &Statement, item: &Node) {
        match statement {
            Statement::Faster(faster) => {
                self.check_range(faster.by.as_ref(), FigureKind::Number, item, "by");
                if !faster.mean_over.is_empty() && !faster.most_over.is_empty() {
                    let message = format!("`{}` asks for the mean and for the largest ratio", self.name);
                    let problem = Problem::new(item.nearest_mark(&["most_over"]), message);
                    self.problems.push(problem.help("keep one of `mean_over` and `most_over`"));
                }
            }
            Statement::Less(less) => self.check_range(less.by.as_ref(), FigureKind::Number, item, "by"),
            Statement::Value(value) => {
                self.check_range(value.between.as_ref(), value.metric.kind(), item, "between");
                if let Some(figure) = &value.is {
                    self.check_figure(figure, value.metric.kind(), item, "is");
                }
                self.check_target(value, item);
            }
            Statement::Order(order) if order.order.len() < 2 => {
                let problem = Problem::new(
                    item.nearest_mark(&["order"]),
                    format!("`{}.order` compares nothing", self.name),
                );
                self.problems.push(problem.help("name at least two variants"));
            }
            Statement::Order(_) | Statement::Equal(_) | Statement::Fits(_) | Statement::DoesNotFit(_) => {}
        }
    }

    fn check_target(&mut self, value: &MetricValue, item: &Node) {
        let help = match (&value.between, &value.is, &value.within) {
            (None, None, _) => "add `between: [lowest, highest]` or `is: value`",
            (Some(_), Some(_), _) => "keep one of `between` and `is`",
            (Some(_), None, Some(_)) => "remove `within`; `between` says how far",
            _ => return,
        };
        let message = format!("`{}` must say one thing about `{}`", self.name, value.metric);
        self.problems.push(Problem::new(item.mark, message).help(help));
    }

    fn check_range(&mut self, range: Option<&Range>, kind: FigureKind, item: &Node, key: &str) {
        // Both bounds are of one kind.
        if let Some(range) = range {
            self.check_figure(&range.low, kind, item, key);
        }
    }

    fn check_figure(&mut self, figure: &Figure, kind: FigureKind, item: &Node, key: &str) {
        if figure.kind != kind && (figure.kind, figure.text.ends_with('%')) != (FigureKind::Number, false) {
            let message = format!("`{}.{key}` must be {}, not {figure}", self.name, kind.noun());
            self.problems.push(Problem::new(item.nearest_mark(&[key]), message).help(match kind {
                FigureKind::Number => "write a bare number",
                _ => "a bare number counts in the unit of the metric's name",
            }));
        }
    }
}
