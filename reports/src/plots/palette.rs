//! The colours, in sets that share none, so that a colour says what kind of thing it stands for:
//! Okabe and Ito's eight for causes of time, Tol's muted ones for variants, Tol's light ones for
//! kinds of bytes (Tol 2021, "Colour Schemes"), and four neutral ones. People with any colour
//! vision tell those of a set apart. The same category has the same colour in every chart of a
//! page.

use indexmap::IndexMap;
use plotters::style::{Color, RGBAColor, RGBColor};

use crate::state;
use crate::summary::LinkKind;

/// Text and lines; the black of the eight. Dark on light paper, light on dark.
pub(crate) const INK: RGBColor = RGBColor(0x1B, 0x1B, 0x1B);
/// Text of second rank.
pub(crate) const MUTED: RGBColor = RGBColor(0x6B, 0x6B, 0x6B);
/// Grid lines.
pub(crate) const GRID: RGBColor = RGBColor(0xDA, 0xDA, 0xDA);
/// The bed that bars and spans lie on.
pub(crate) const BED: RGBColor = RGBColor(0xF1, 0xF1, 0xF1);

/// Text on dark and on light colours, the same on any paper.
pub(crate) const ON_DARK: RGBColor = RGBColor(0xFE, 0xFE, 0xFE);
pub(crate) const ON_LIGHT: RGBColor = RGBColor(0x01, 0x01, 0x01);

pub(crate) const BLUE: RGBColor = RGBColor(0x00, 0x72, 0xB2);
pub(crate) const SKY: RGBColor = RGBColor(0x56, 0xB4, 0xE9);
pub(crate) const GREEN: RGBColor = RGBColor(0x00, 0x9E, 0x73);
pub(crate) const YELLOW: RGBColor = RGBColor(0xF0, 0xE4, 0x42);
pub(crate) const ORANGE: RGBColor = RGBColor(0xE6, 0x9F, 0x00);
pub(crate) const VERMILLION: RGBColor = RGBColor(0xD5, 0x5E, 0x00);
pub(crate) const PURPLE: RGBColor = RGBColor(0xCC, 0x79, 0xA7);
/// Nothing happens.
pub(crate) const GREY: RGBColor = RGBColor(0x99, 0x99, 0x99);

/// The colour of a state of the compute lane. Work is blue to green, waiting warm, nothing to do grey.
pub(crate) fn of_state(name: &str) -> RGBAColor {
    match (state::word(name), state::kind(name)) {
        (state::COMPUTE, Some(kind)) if kind.contains("weight") => GREEN.to_rgba(),
        (state::COMPUTE, Some(kind)) if kind.contains("backward") => SKY.to_rgba(),
        (state::COMPUTE, _) => BLUE.to_rgba(),
        (state::RECOMPUTE, _) => YELLOW.to_rgba(),
        (state::LAUNCH_BOUND, _) => INK.to_rgba(),
        (state::WAITING_FOR_MEMORY, _) => PURPLE.to_rgba(),
        (state::WAITING_FOR_TRANSFER, _) => ORANGE.to_rgba(),
        (state::COMMUNICATION, _) => VERMILLION.to_rgba(),
        (state::SKEW, _) => VERMILLION.mix(0.5),
        (state::IDLE, _) => GREY.mix(0.4),
        (state::KERNELS, _) => BLUE.to_rgba(),
        (state::COLLECTIVES, _) => VERMILLION.to_rgba(),
        (state::COPIES, _) => ORANGE.to_rgba(),
        (state::GAPS, _) => INK.mix(0.5),
        (state::PYTHON, _) => YELLOW.to_rgba(),
        (state::DISPATCH, _) => GREEN.to_rgba(),
        (state::RUNTIME_CALLS, _) => SKY.to_rgba(),
        (state::LOADER, _) => PURPLE.to_rgba(),
        (state::WAITING_FOR_DEVICE, _) => BLUE.mix(0.3),
        (state::WAITING_FOR_STREAM, _) => ORANGE.mix(0.4),
        (state::QUEUE_FULL, _) => PURPLE.mix(0.4),
        (state::BUILDING, _) => VERMILLION.to_rgba(),
        (state::WAITING_FOR_FEED, _) => GREEN.mix(0.35),
        (state::WAITING_FOR_PATH, _) => VERMILLION.mix(0.4),
        (state::WAITING_FOR_BATCH, _) => ORANGE.mix(0.4),
        (state::INTERPRETER_LOCK, _) => YELLOW.mix(0.4),
        _ => GREY.to_rgba(),
    }
}

/// The colour of a link by what it is made of.
pub(crate) fn of_link(kind: LinkKind) -> RGBAColor {
    match kind {
        LinkKind::NvLink => GREEN,
        LinkKind::Pcie => BLUE,
        LinkKind::Network => VERMILLION,
        LinkKind::SsdLink => SKY,
        LinkKind::SocketLink => ORANGE,
        LinkKind::Memory => PURPLE,
    }
    .to_rgba()
}

/// Tol's muted colours, those that lie next to each other in a chart far apart.
const VARIANTS: [RGBColor; 9] = [
    RGBColor(0x33, 0x22, 0x88),
    RGBColor(0xDD, 0xCC, 0x77),
    RGBColor(0x44, 0xAA, 0x99),
    RGBColor(0xCC, 0x66, 0x77),
    RGBColor(0x88, 0xCC, 0xEE),
    RGBColor(0x88, 0x22, 0x55),
    RGBColor(0x99, 0x99, 0x33),
    RGBColor(0xAA, 0x44, 0x99),
    RGBColor(0x11, 0x77, 0x33),
];
/// Tol's light colours.
const BYTES: [RGBColor; 8] = [
    RGBColor(0x77, 0xAA, 0xDD),
    RGBColor(0xEE, 0x88, 0x66),
    RGBColor(0x44, 0xBB, 0x99),
    RGBColor(0xFF, 0xAA, 0xBB),
    RGBColor(0xAA, 0xAA, 0x00),
    RGBColor(0x99, 0xDD, 0xFF),
    RGBColor(0xEE, 0xDD, 0x88),
    RGBColor(0xBB, 0xCC, 0x33),
];

/// Colours of categories that only the data knows, by order of first appearance.
pub(crate) struct Categories(IndexMap<String, RGBAColor>);

impl Categories {
    /// Colours of variants.
    pub(crate) fn variants<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        Self::of_set(&VARIANTS, names)
    }

    /// Colours of kinds of bytes, in memory or on their way.
    pub(crate) fn bytes<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        Self::of_set(&BYTES, names)
    }

    /// Colours of what stands beside no cause of time.
    pub(crate) fn others<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        Self::of_set(&[BLUE, ORANGE, GREEN, VERMILLION, PURPLE, SKY, YELLOW, INK], names)
    }

    fn of_set<'a>(set: &[RGBColor], names: impl IntoIterator<Item = &'a str>) -> Self {
        let mut colours = IndexMap::new();
        for name in names {
            let index = colours.len();
            let alpha = if (index / set.len()).is_multiple_of(2) { 1.0 } else { 0.5 };
            colours.entry(name.to_owned()).or_insert(set[index % set.len()].mix(alpha));
        }
        Categories(colours)
    }

    /// The colour of `name`; grey for a stranger.
    pub(crate) fn of(&self, name: &str) -> RGBAColor {
        self.0.get(name).copied().unwrap_or(GREY.to_rgba())
    }

    /// The place of `name` among all; behind them for a stranger.
    pub(crate) fn place(&self, name: &str) -> usize {
        self.0.get_index_of(name).unwrap_or(self.0.len())
    }

    /// All, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, RGBAColor)> {
        self.0.iter().map(|(name, colour)| (name.as_str(), *colour))
    }
}

/// The text colour that can be read on `fill`.
pub(crate) fn text_on(fill: RGBAColor) -> RGBColor {
    let (r, g, b) = fill.rgb();
    let light = 0.299 * f64::from(r) + 0.587 * f64::from(g) + 0.114 * f64::from(b);
    if (r, g, b) == INK.rgb() {
        return BED;
    }
    // A tint shows the paper, which may be light or dark: ink follows it.
    match (fill.alpha() < 0.75, light > 125.0) {
        (true, _) => INK,
        (false, true) => ON_LIGHT,
        (false, false) => ON_DARK,
    }
}

/// As a CSS colour, for legends beside the pictures.
pub(crate) fn css(fill: RGBAColor) -> String {
    let (r, g, b) = fill.rgb();
    if (r, g, b) == INK.rgb() {
        return "var(--ink)".to_owned();
    }
    format!("rgb({r} {g} {b} / {})", fill.alpha())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_share_no_colour() {
        let causes = [BLUE, SKY, GREEN, YELLOW, ORANGE, VERMILLION, PURPLE, GREY];
        let all: Vec<_> = causes.iter().chain(&VARIANTS).chain(&BYTES).map(Color::rgb).collect();
        for (at, colour) in all.iter().enumerate() {
            assert!(!all[..at].contains(colour), "{colour:?}");
        }
    }

    #[test]
    fn lanes_of_a_program_have_a_colour_for_each_cause() {
        let causes = [
            state::KERNELS,
            state::COPIES,
            state::GAPS,
            state::PYTHON,
            state::DISPATCH,
            state::RUNTIME_CALLS,
            state::LOADER,
            state::BUILDING,
            state::WAITING_FOR_DEVICE,
            state::WAITING_FOR_THREAD,
            state::QUEUE_FULL,
            state::WAITING_FOR_FEED,
            state::WAITING_FOR_PATH,
            state::WAITING_FOR_BATCH,
            state::INTERPRETER_LOCK,
            state::LAUNCH_BOUND,
            state::IDLE,
        ];
        for (at, cause) in causes.iter().enumerate() {
            let same = causes[..at].iter().find(|other| of_state(other) == of_state(cause));
            assert_eq!(same, None, "{cause}");
        }
    }
}
