//! What moves: communication by kind, how busy the links are.

use maud::{Markup, html};

use super::alike::{Alike, joined};
use super::{Page, figure, first, picker, sortable};
use crate::plots::PlotError;
use crate::plots::palette::{self, Categories, of_link, of_state};
use crate::plots::rows::{self, Bar, Segment};
use crate::quantity;
use crate::state;
use crate::summary::{CommunicationUse, LinkKind, LinkUse, ResourceUse, RunSummary};

/// Links of one table.
const LINKS_MAX: usize = 20;
/// Tables of one picker.
const RUNS_MAX: usize = 12;
/// Share of time from which on a link or memory is what limits, whatever else does.
const BUSY: f64 = 0.7;
/// Resources of the chart of use.
const RESOURCES_MAX: usize = 10;

/// Time exposed to communication, by variant and kind.
pub(super) fn communication(page: &Page<'_>) -> Result<Markup, PlotError> {
    let runs: Vec<_> = page.focus.iter().copied().filter(|run| !run.communication.is_empty()).collect();
    if runs.is_empty() {
        return Ok(html! {});
    }
    let colours =
        Categories::bytes(runs.iter().flat_map(|run| &run.communication).map(|one| one.kind.as_str()));
    let bars: Vec<_> = runs.iter().map(|run| exposed(run, &colours)).collect();
    let question = format!("What does communication cost{}?", page.place);
    let aid = "Time of a step in which a rank does nothing but wait for it, mean over ranks; what is hidden behind work costs nothing.";
    let kinds: Vec<_> = colours.iter().collect();
    let plot = rows::draw(&question, &bars)?;
    Ok(figure(&question, aid, &kinds, &html! { (plot) (communication_table(&runs)) }))
}

fn exposed(run: &RunSummary, colours: &Categories) -> Bar {
    let seen = run.communication.iter().filter(|one| one.exposed_s > 0.0 && one.exposed_s.is_finite());
    let segment = |one: &CommunicationUse| {
        let time = quantity::seconds(one.exposed_s);
        let hover = format!("{}: {} {time}", run.variant, one.kind);
        Segment { value: one.exposed_s, fill: colours.of(&one.kind), label: time, hover }
    };
    let total: f64 = seen.clone().map(|one| one.exposed_s).sum();
    let share = run.step_time().map(|step| format!(", {} of the step", quantity::percent(total / step)));
    let segments: Vec<_> = seen.map(segment).collect();
    let note = match segments.is_empty() {
        true => "all of it is hidden".to_owned(),
        false => format!("{}{}", quantity::seconds(total), share.unwrap_or_default()),
    };
    Bar { name: run.variant.clone(), segments, note, ..Bar::default() }
}

fn communication_table(runs: &[&RunSummary]) -> Markup {
    let titles = &["variant", "communication", ">times a step", ">bytes a rank", ">exposed", ">of the step"];
    let rows = runs.iter().flat_map(|run| run.communication.iter().map(|one| communication_row(run, one)));
    sortable(titles, &rows.collect::<Vec<_>>())
}

fn communication_row(run: &RunSummary, one: &CommunicationUse) -> Markup {
    let exposed = Some(one.exposed_s).filter(|time| time.is_finite());
    let share = exposed.zip(run.step_time()).map(|(time, step)| time / step);
    html! {
        tr {
            td { (run.variant) }
            td { (one.kind) }
            td.number data-sort=(one.count) { (one.count) }
            td.number data-sort=(one.bytes) { (quantity::bytes(one.bytes)) }
            td.number data-sort=[exposed] { (quantity::seconds(one.exposed_s)) }
            td.number data-sort=[share] { (share.map_or_else(|| quantity::NONE.to_owned(), quantity::percent)) }
        }
    }
}

/// The busiest links of each run, and what else the run uses that is looked at closely.
pub(super) fn links(page: &Page<'_>) -> Result<Markup, PlotError> {
    let runs: Vec<_> =
        page.focus.iter().copied().filter(|run| !run.links.is_empty()).take(RUNS_MAX).collect();
    if runs.is_empty() {
        return Ok(html! {});
    }
    let tables: Vec<_> = runs.iter().map(|run| (run.variant.clone(), link_table(&run.links))).collect();
    let used: Vec<_> = runs.iter().flat_map(|run| &run.links).collect();
    let kinds: Vec<_> =
        LinkKind::ALL.into_iter().filter(|kind| used.iter().any(|link| link.kind == *kind)).collect();
    let kinds: Vec<_> = kinds.into_iter().map(|kind| (kind.title(), of_link(kind))).collect();
    let question = format!("Which links are the busiest{}?", page.place);
    let aid = "One direction each, those that carried as much as each other in one row: bytes in a step, and as a bar the share of \
               what it could have carried.";
    Ok(figure(&question, aid, &kinds, &picker(&tables, first(page, &runs))))
}

fn link_table(links: &[LinkUse]) -> Markup {
    let row = |alike: &Alike<'_, LinkUse>| {
        let link = alike.first;
        html! {
            tr {
                td { (alike.name) }
                td { (link.kind.title()) }
                td.number data-sort=(alike.count) { (alike.count) }
                td.number data-sort=(link.bytes) { (quantity::bytes(link.bytes)) }
                (share(link))
            }
        }
    };
    let titles = &["link", "kind", ">links", ">bytes a step, each", "utilisation"];
    let told = |link: &LinkUse| {
        format!(
            "{} {} {}",
            link.kind.title(),
            quantity::bytes(link.bytes),
            quantity::percent(link.utilisation)
        )
    };
    let rows = joined(links, |link| &link.name, told);
    sortable(titles, &rows.iter().take(LINKS_MAX).map(row).collect::<Vec<_>>())
}

/// A share as a bar with its number.
fn share(link: &LinkUse) -> Markup {
    let share = Some(link.utilisation).filter(|share| share.is_finite());
    let style = format!(
        "--bar:{:.1}%;--fill:{}",
        share.unwrap_or_default().clamp(0.0, 1.0) * 100.0,
        palette::css(of_link(link.kind))
    );
    html! {
        td.bar data-sort=[share] style=(style) { span { (quantity::percent(link.utilisation)) } }
    }
}

/// What else a run uses: memories, links without kind.
pub(super) fn resources(page: &Page<'_>, best: &RunSummary) -> Result<Markup, PlotError> {
    let told = |name: &str| best.links.iter().any(|link| link.name == name);
    let others = best.resources.iter().filter(|resource| !told(&resource.name));
    let mut used: Vec<_> = others.filter_map(|resource| Some((resource, resource.utilisation?))).collect();
    used.sort_by(|a, b| b.1.total_cmp(&a.1));
    let note = |(resource, share): &(&ResourceUse, f64)| {
        format!("{}, {}", quantity::percent(*share), quantity::bytes(resource.bytes))
    };
    let mut used = joined(&used, |(resource, _)| &resource.name, note);
    used.truncate(RESOURCES_MAX);
    let sentence = decides(best);
    if used.is_empty() {
        return Ok(html! { @if let Some(sentence) = sentence { p { (sentence) } } });
    }
    let fill = of_state(state::WAITING_FOR_TRANSFER);
    let bars: Vec<_> = used
        .iter()
        .map(|alike| {
            let note = note(alike.first);
            let note = if alike.count > 1 { format!("{note}, each of {}", alike.count) } else { note };
            let hover = format!("{}: {note}", alike.name);
            let segment = Segment { value: alike.first.1, fill, label: String::new(), hover };
            Bar {
                name: alike.name.clone(),
                segments: vec![segment],
                note,
                limit: Some(1.0),
                ..Bar::default()
            }
        })
        .collect();
    let question = format!("Which link or memory is the bottleneck, in {}?", page.label(best));
    let aid =
        "What each carried, as a share of what it could have carried in that time; the line is all of it.";
    let plot = rows::draw(&question, &bars)?;
    Ok(html! {
        (figure(&question, aid, &[], &plot))
        @if let Some(sentence) = sentence { p { (sentence) } }
    })
}

/// The cause that decides a step, by how busy links and memories are and by its critical path.
fn decides(run: &RunSummary) -> Option<String> {
    let of_links = run.links.iter().map(|link| (&link.name, link.utilisation));
    let others = run.resources.iter().filter_map(|one| Some((&one.name, one.utilisation?)));
    let busiest = of_links.chain(others).filter(|(_, share)| share.is_finite());
    let (name, share) = busiest.max_by(|a, b| a.1.total_cmp(&b.1))?;
    let busy = quantity::percent(share);
    if share >= BUSY {
        return Some(format!("{name} is the busiest, at {busy}."));
    }
    let whole: f64 = run.critical_path_s.values().sum();
    let (cause, time) = run.critical_path_s.iter().max_by(|a, b| a.1.total_cmp(b.1))?;
    let of_path = quantity::percent(time / whole);
    Some(format!(
        "No link or memory is busy above {busy}: {cause} decides, with {of_path} of the critical path."
    ))
}
