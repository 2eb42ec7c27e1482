//! The terminal, as a reader sees it.

use reports::Summary;
use reports::terminal::{Style, write};

use crate::fixture;

fn screen(summary: &Summary, colour: bool) -> String {
    let mut out = Vec::new();
    write(&mut out, summary, Style { colour }).expect("a vector takes every byte");
    String::from_utf8(out).expect("text")
}

#[test]
fn a_comparison() {
    insta::assert_snapshot!(screen(&fixture::comparison(), false));
}

#[test]
fn a_sweep_too_long_for_the_screen_points_to_the_file() {
    insta::assert_snapshot!(screen(&fixture::sweep(), false));
}

#[test]
fn colour_adds_nothing_but_colour() {
    let summary = fixture::comparison();
    let coloured = screen(&summary, true);
    assert!(coloured.contains("\x1b[32m✓\x1b[0m") && coloured.contains("\x1b[31m✗\x1b[0m"));
    let mut plain = String::new();
    for piece in coloured.split('\x1b') {
        plain +=
            piece.strip_prefix('[').and_then(|rest| rest.split_once('m')).map_or(piece, |(_, text)| text);
    }
    assert_eq!(plain, screen(&summary, false));
}
