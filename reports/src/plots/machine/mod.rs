//! One node of a machine: parts as boxes, links as lines as wide as they are fast.

mod layout;
mod paths;
mod tree;

use maud::Markup;
use plotters::prelude::*;

use self::layout::{GUTTER, Layout, PartBox, Row};
use super::palette::{BED, GRID, INK, MUTED, of_link};
use super::{Anchor, PlotError, fitted, picture, style, text_width, write};
use crate::summary::{MachineDrawing, PartKind};

/// More parts than this cannot be told apart.
pub(crate) const PARTS_MAX: usize = 128;
/// Lines of text in the box of a GPU below its name.
const PLACES_MAX: usize = 2;
/// Width of the fastest link.
const LINE: f64 = 8.0;

/// Draws the node. `hover` tells more of a part.
pub(crate) fn draw(
    name: &str,
    machine: &MachineDrawing,
    hover: &dyn Fn(usize) -> String,
) -> Result<Markup, PlotError> {
    let parts = &machine.node;
    let wires = tree::wires(parts, &machine.links);
    let layout = layout(machine, &wires);
    picture(layout.height as u32, name, |area| {
        for row in &layout.rows {
            title(area, machine, row)?;
        }
        for part in &layout.boxes {
            let frame = [(part.left - 1, part.top - 1), (part.right + 1, part.bottom + 1)];
            area.draw(&Rectangle::new(frame, GRID.stroke_width(1)))?;
        }
        let (bars, boxes): (Vec<_>, Vec<_>) =
            layout.boxes.iter().partition(|part| layout::joins_many(parts[part.parts[0]].kind));
        fill(area, &bars)?;
        self::lines(area, &layout)?;
        fill(area, &boxes)?;
        for &part in &boxes {
            text(area, machine, part)?;
        }
        let told = |part: &PartBox| part.parts.iter().map(|part| hover(*part)).collect::<Vec<_>>().join("; ");
        Ok(bars.into_iter().chain(boxes).map(told).collect())
    })
}

/// The layout, with what the GPUs hold in their boxes if there is room in all of them.
fn layout(machine: &MachineDrawing, wires: &[tree::Wire]) -> Layout {
    let lines = machine.placement.values().map(|held| held.split(", ").count()).max().unwrap_or_default();
    let layout = Layout::new(&machine.node, wires, lines.min(PLACES_MAX));
    let fits = |part: &PartBox| held(machine, part).all(|held| text_width(held) <= room(part));
    if layout.boxes.iter().all(fits) { layout } else { Layout::new(&machine.node, wires, 0) }
}

/// What a GPU holds, line by line; nothing for equal GPUs in one box.
fn held<'a>(machine: &'a MachineDrawing, part: &PartBox) -> impl Iterator<Item = &'a str> {
    let held = match part.parts[..] {
        [one] => machine.placement.get(&machine.node[one].name),
        _ => None,
    };
    held.into_iter().flat_map(|held| held.split(", ")).take(PLACES_MAX)
}

/// Room for text in a box.
fn room(part: &PartBox) -> i32 {
    part.right - part.left - 2
}

/// What a row shows: how many of what, and which.
fn title(area: &super::Area<'_>, machine: &MachineDrawing, row: &Row) -> Result<(), PlotError> {
    let count = row.parts.len();
    let mut labels: Vec<&str> = Vec::new();
    for label in row.parts.iter().map(|part| machine.node[*part].label.as_str()) {
        if !label.is_empty() && !labels.contains(&label) {
            labels.push(label);
        }
    }
    let (what, which) = match (row.kind, &machine.network) {
        (PartKind::NetworkSwitch, Some(network)) => ("network".to_owned(), network.clone()),
        _ => (format!("{count} {}", row.kind.noun(count)), labels.join(", ")),
    };
    let middle = (row.top + row.bottom) / 2;
    let room = GUTTER - 24;
    if which.is_empty() {
        return write(area, (0, middle), &fitted(&what, room), Anchor::Start);
    }
    write(area, (0, middle - 8), &fitted(&what, room), Anchor::Start)?;
    area.draw_text(&fitted(&which, room), &style(MUTED, Anchor::Start), (0, middle + 8))
}

fn fill(area: &super::Area<'_>, boxes: &[&PartBox]) -> Result<(), PlotError> {
    for part in boxes {
        area.draw(&Rectangle::new([(part.left, part.top), (part.right, part.bottom)], BED.filled()))?;
    }
    Ok(())
}

/// The links, wide ones below.
fn lines(area: &super::Area<'_>, layout: &Layout) -> Result<(), PlotError> {
    let fastest = layout.lines.iter().map(|line| line.bytes_per_s).filter(|rate| rate.is_finite());
    let fastest = fastest.fold(f64::MIN_POSITIVE, f64::max);
    // By the root, so that a slow link can be seen beside a fast one.
    let width = |rate: f64| ((rate / fastest).max(0.0).sqrt() * LINE).round().clamp(1.0, LINE) as u32;
    let mut lines: Vec<_> = layout.lines.iter().map(|line| (width(line.bytes_per_s), line)).collect();
    lines.sort_by_key(|(width, _)| std::cmp::Reverse(*width));
    for (width, line) in lines {
        area.draw(&PathElement::new(line.path.clone(), of_link(line.kind).stroke_width(width)))?;
    }
    Ok(())
}

/// The name of a part, and what it holds.
fn text(area: &super::Area<'_>, machine: &MachineDrawing, part: &PartBox) -> Result<(), PlotError> {
    let names: Vec<&str> = part.parts.iter().map(|part| machine.node[*part].name.as_str()).collect();
    let middle = (part.left + part.right) / 2;
    let at = |line: usize| (middle, part.top + 12 + 15 * line as i32);
    area.draw_text(&short(&names, room(part)), &style(INK, Anchor::Middle), at(0))?;
    for (line, held) in held(machine, part).enumerate().take_while(|(line, _)| at(line + 1).1 < part.bottom) {
        area.draw_text(held, &style(MUTED, Anchor::Middle), at(line + 1))?;
    }
    Ok(())
}

/// As much of some names as there is room for: `nic[0], nic[1]`, `nic[0-1]`, `0-1`, `×2`, or nothing.
fn short(names: &[&str], room: i32) -> String {
    let split = |name: &&str| name.strip_suffix(']').and_then(|name| name.rsplit_once('[')).map(owned);
    let indices: Option<Vec<(String, String)>> = names.iter().map(split).collect();
    let mut candidates = vec![names.join(", ")];
    if let Some((first, last)) = indices.as_ref().and_then(|all| all.first().zip(all.last())) {
        let range = if names.len() == 1 { first.1.clone() } else { format!("{}-{}", first.1, last.1) };
        candidates.push(format!("{}[{range}]", first.0));
        candidates.push(range);
    }
    if names.len() > 1 {
        candidates.push(format!("×{}", names.len()));
    }
    candidates.into_iter().find(|text| text_width(text) <= room).unwrap_or_default()
}

fn owned((head, tail): (&str, &str)) -> (String, String) {
    (head.to_owned(), tail.to_owned())
}
