//! Charts as SVG, one a file. Each takes what it shows and gives a picture; the page adds question, reading aid, legend.
//!
//! Colours come from [`palette`] alone. Its neutral ones are replaced by the style sheet of the page, which finds them
//! by their value, so that a picture follows light, dark and print, and still stands alone.

#[cfg(feature = "measured")]
pub(crate) mod agreement;
pub(crate) mod curves;
#[cfg(feature = "measured")]
pub(crate) mod fit;
pub(crate) mod front;
pub(crate) mod heat_map;
pub(crate) mod iterations;
mod labels;
mod layout;
pub(crate) mod machine;
pub(crate) mod memory_curve;
pub(crate) mod palette;
pub(crate) mod parity;
pub(crate) mod rows;
pub(crate) mod scatter;
pub(crate) mod strip;
pub(crate) mod timeline;
pub(crate) mod tornado;
pub(crate) mod trade_off;
pub(crate) mod waterfall;

use maud::{Markup, PreEscaped, html};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use palette::INK;

/// Width of every picture; the page scales it.
pub(crate) const WIDTH: u32 = 920;

/// What goes wrong while drawing: nothing, on a string, but plotters cannot know.
pub(crate) type PlotError = DrawingAreaErrorKind<std::io::Error>;

/// The paper of a picture.
pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Draws a picture of [`WIDTH`] times `height` with an accessible name. `paint` returns the hover texts of the
/// rectangles it drew last, one for each in order.
pub(crate) fn picture(
    height: u32,
    name: &str,
    paint: impl FnOnce(&Area<'_>) -> Result<Vec<String>, PlotError>,
) -> Result<Markup, PlotError> {
    let mut svg = String::new();
    let hover = {
        let area = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        let hover = paint(&area)?;
        area.present()?;
        hover
    };
    let shapes =
        svg.split_once('>').and_then(|(_, rest)| rest.rsplit_once("</svg>")).map_or("", |(shapes, _)| shapes);
    let shapes = shapes
        .replace(" opacity=\"1\"", "")
        .replace(" stroke=\"none\"", "")
        .replace(" font-family=\"sans-serif\"", "");
    let view = format!("0 0 {WIDTH} {height}");
    Ok(html! {
        div.plot {
            svg viewBox=(view) role="img" {
                title { (name) }
                (PreEscaped(with_titles(&shapes, &hover)))
            }
        }
    })
}

/// Gives each of the last `titles.len()` rectangles its hover text, which plotters cannot write.
fn with_titles(shapes: &str, titles: &[String]) -> String {
    let rectangles = shapes.matches("<rect ").count();
    let mut titles = titles.iter().skip(titles.len().saturating_sub(rectangles));
    let mut untitled = rectangles.saturating_sub(titles.len());
    let mut out = String::with_capacity(shapes.len() * 2);
    for line in shapes.lines() {
        match line.strip_suffix("/>").filter(|_| line.starts_with("<rect ")) {
            Some(_) if untitled > 0 => {
                untitled -= 1;
                out.push_str(line);
            }
            Some(open) => {
                let title = titles.next().map_or("", String::as_str);
                out.push_str(
                    &html! { (PreEscaped(open)) (PreEscaped(">")) title { (title) } (PreEscaped("</rect>")) }
                        .0,
                );
            }
            None => out.push_str(line),
        }
        out.push('\n');
    }
    out
}

/// Where a text stands about its point.
#[derive(Clone, Copy)]
pub(crate) enum Anchor {
    /// To the right of it.
    Start,
    /// About it.
    Middle,
    /// To the left of it.
    End,
}

/// Text of the size of the page's small print, centred in height.
pub(crate) fn style(colour: RGBColor, anchor: Anchor) -> TextStyle<'static> {
    // plotters-svg prints the size divided by 1.24.
    const SIZE: f64 = 12.5 * 1.24;
    let h_pos = match anchor {
        Anchor::Start => HPos::Left,
        Anchor::Middle => HPos::Center,
        Anchor::End => HPos::Right,
    };
    let font = FontDesc::new(FontFamily::SansSerif, SIZE, FontStyle::Normal);
    TextStyle { font, color: colour.to_backend_color(), pos: Pos::new(h_pos, VPos::Center) }
}

/// Writes ink text.
pub(crate) fn write(area: &Area<'_>, at: (i32, i32), text: &str, anchor: Anchor) -> Result<(), PlotError> {
    area.draw_text(text, &style(INK, anchor), at)
}

/// The width a text will about have: without fonts it can only be estimated.
pub(crate) fn text_width(text: &str) -> i32 {
    text.chars().map(|c| if c.is_ascii() { 7 } else { 11 }).sum()
}

/// `text`, cut with an ellipsis to about `width`.
pub(crate) fn fitted(text: &str, width: i32) -> String {
    if text_width(text) <= width {
        return text.to_owned();
    }
    let mut left = width - 11;
    let head = text.chars().take_while(|c| {
        left -= if c.is_ascii() { 7 } else { 11 };
        left >= 0
    });
    head.chain(['…']).collect()
}
