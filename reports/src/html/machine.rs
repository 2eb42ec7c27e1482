//! The machine: a drawing of one node of each kind, and its parts one by one.

use maud::{Markup, html};

use super::{Page, figure};
use crate::finding::idle;
use crate::plots::palette::of_link;
use crate::plots::{PlotError, machine};
use crate::quantity;
use crate::summary::{DrawnLink, LinkKind, MachineDrawing};
use crate::wording::unbroken;

pub(super) fn drawing(page: &Page<'_>) -> Result<Markup, PlotError> {
    let Some(drawing) = page.summary.machine.as_ref().filter(|machine| !machine.node.is_empty()) else {
        return Ok(html! {});
    };
    let others = drawing.others.iter().map(|other| of_node(other, &html! {}));
    let others = others.collect::<Result<Vec<_>, _>>()?;
    let idle = html! { @if let Some(sentence) = idle(&page.comparison) { p { (sentence) "." } } };
    Ok(html! {
        (of_node(drawing, &idle)?)
        @for other in others { (other) }
    })
}

/// One node, with what is to be read below its picture.
fn of_node(drawing: &MachineDrawing, below: &Markup) -> Result<Markup, PlotError> {
    let question = match drawing.name.as_str() {
        "" => "What is the machine made of?".to_owned(),
        name => format!("What is a node of {name} made of?"),
    };
    let placed =
        drawing.placement_of.as_ref().map(|variant| format!(" GPUs hold what {variant} places on them."));
    let aid = format!(
        "{}Each line is a link, wider where it is faster; rates are for one direction.{}",
        one_of(drawing),
        placed.unwrap_or_default()
    );
    if drawing.node.len() > machine::PARTS_MAX {
        let sentence = format!("Not drawn: a node has {} parts.", drawing.node.len());
        return Ok(html! { h3 { (question) } p { (one_of(drawing)) (sentence) } (below) });
    }
    let links = Links::of(drawing);
    let hover = |part: usize| told(drawing, &links, part);
    let legend = kinds(drawing);
    let legend: Vec<_> = legend.iter().map(|(kind, text)| (text.as_str(), of_link(*kind))).collect();
    Ok(html! {
        (figure(&question, &aid, &legend, &machine::draw(&question, drawing, &hover)?))
        (below)
        (parts(drawing, &links))
    })
}

fn one_of(drawing: &MachineDrawing) -> String {
    let network = drawing.network.as_ref().map(|name| format!(", joined by {name}")).unwrap_or_default();
    match drawing.nodes {
        0 | 1 => String::new(),
        nodes => format!("One of {nodes} equal nodes{network}. "),
    }
}

/// The links of each part.
struct Links<'a>(Vec<Vec<(&'a DrawnLink, &'a str)>>);

impl<'a> Links<'a> {
    fn of(drawing: &'a MachineDrawing) -> Self {
        let ends = |name: &str| {
            let other = |link: &'a DrawnLink| match (link.from == name, link.to == name) {
                (true, false) => Some((link, link.to.as_str())),
                (false, true) => Some((link, link.from.as_str())),
                _ => None,
            };
            drawing.links.iter().filter_map(other).collect()
        };
        Links(drawing.node.iter().map(|part| ends(&part.name)).collect())
    }

    /// `switch[0] 26.1 GB/s, nvswitch 240 GB/s`.
    fn text(&self, part: usize) -> String {
        let one =
            |(link, end): &(&DrawnLink, &str)| format!("{end} {}", quantity::bytes_per_s(link.bytes_per_s));
        self.0[part].iter().map(one).collect::<Vec<_>>().join(", ")
    }
}

fn told(drawing: &MachineDrawing, links: &Links<'_>, part: usize) -> String {
    let drawn = &drawing.node[part];
    let facts = [
        drawn.label.clone(),
        drawing.placement.get(&drawn.name).cloned().unwrap_or_default(),
        links.text(part),
    ];
    let facts: Vec<_> = facts.into_iter().filter(|fact| !fact.is_empty()).collect();
    if facts.is_empty() { drawn.name.clone() } else { format!("{}: {}", drawn.name, facts.join(" · ")) }
}

/// The kinds of links with their rates: `PCIe 26.1 GB/s`.
fn kinds(drawing: &MachineDrawing) -> Vec<(LinkKind, String)> {
    let rates = |kind: LinkKind| {
        let mut rates: Vec<f64> =
            drawing.links.iter().filter(|link| link.kind == kind).map(|link| link.bytes_per_s).collect();
        rates.sort_by(f64::total_cmp);
        let mut texts: Vec<_> = rates.into_iter().map(quantity::bytes_per_s).collect();
        texts.dedup();
        match texts.as_slice() {
            [] => None,
            [least, .., most] if texts.len() > 3 => Some(format!("{} {least} to {most}", kind.title())),
            _ => Some(format!("{} {}", kind.title(), texts.join(", "))),
        }
    };
    LinkKind::ALL.into_iter().filter_map(|kind| Some((kind, rates(kind)?))).collect()
}

fn parts(drawing: &MachineDrawing, links: &Links<'_>) -> Markup {
    let placed = !drawing.placement.is_empty();
    html! {
        details {
            summary { "The parts of a node, one by one" }
            div.wide {
                table {
                    thead { tr { th { "part" } th { "what" } th { "which" } @if placed { th { "holds" } } th { "linked to" } } }
                    tbody {
                        @for (index, part) in drawing.node.iter().enumerate() {
                            tr {
                                td { code { (part.name) } }
                                td { (part.kind.noun(1)) }
                                td { (part.label) }
                                @if placed { td { @if let Some(held) = drawing.placement.get(&part.name) { (held) } } }
                                td { (unbroken(&links.text(index))) }
                            }
                        }
                    }
                }
            }
        }
    }
}
