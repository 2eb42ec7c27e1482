//! The map of winners over two cases of numbers, in JSON, on the terminal and on the page.

use reports::terminal::{Style, write};
use reports::{Summary, Winners};

use crate::fixture::{at, bare, summary, too_big};

const RATE: &str = "machine.link.rate";
const LIMIT: &str = "memory.limit";

/// Plain training needs 40 GiB; copies hide behind kernels from 64 GB/s on, recomputation costs 1.3.
fn mapped(rates: [&str; 2]) -> Summary {
    let mut runs = Vec::new();
    for (rate, swapped) in rates.into_iter().zip([2.0, 1.0]) {
        for limit in ["40 GiB", "20 GiB"] {
            let plain = if limit == "40 GiB" { bare("plain", 1.0) } else { too_big("plain", 20 << 30) };
            let swap = bare("swap", if limit == "40 GiB" { 1.0 } else { swapped });
            for mut run in [plain, swap, bare("recompute", 1.3)] {
                run.samples_per_s = run.step_time_s.map(f64::recip);
                runs.push(at(at(run, RATE, rate), LIMIT, limit));
            }
        }
    }
    let cases = [RATE.to_owned(), LIMIT.to_owned()];
    let winners = Winners::of(&runs, &cases, &cases);
    Summary { winners, cases: cases.to_vec(), ..summary("map", &[RATE, LIMIT], runs) }
}

#[test]
fn each_cell_names_the_fastest_and_its_lead() {
    let map = mapped(["16 GB/s", "64 GB/s"]).winners.expect("two cases of numbers");
    let cells =
        map.cells.iter().map(|row| row.iter().map(|cell| (&*cell.fastest, cell.next.as_deref(), cell.lead)));
    let cells: Vec<Vec<_>> = cells.map(Iterator::collect).collect();
    let (both, recompute, swap) =
        (["plain".to_owned(), "swap".to_owned()], ["recompute".to_owned()], ["swap".to_owned()]);
    let enough = (&both[..], Some("recompute"), Some(1.3));
    let short = [(&recompute[..], Some("swap"), Some(2.0 / 1.3)), (&swap[..], Some("recompute"), Some(1.3))];
    assert_eq!(map.rows.values, ["40 GiB", "20 GiB"]);
    assert_eq!(cells[0], [enough, enough], "of equals the one written first leads");
    assert_eq!(cells[1], short);
}

#[test]
fn the_map_of_the_terminal_has_leads_below_names() {
    let mut out = Vec::new();
    write(&mut out, &mapped(["16 GB/s", "64 GB/s"]), Style::default()).expect("a vector takes every byte");
    let screen = String::from_utf8(out).expect("text");
    let map: Vec<&str> = screen.lines().skip(2).take(7).collect();
    insta::assert_snapshot!(map.join("\n"));
}

#[test]
fn the_map_of_the_page_has_axes_with_units_and_a_legend() {
    let mut out = Vec::new();
    reports::html::write(&mut out, &mapped(["16 GB/s", "64 GB/s"])).expect("a vector takes every byte");
    let page = String::from_utf8(out).expect("text");
    let (_, map) = page.split_once("Which variant is fastest over rate and limit?").expect("a map");
    let (map, _) = map.split_once("</figure>").expect("a whole map");
    for text in [
        "machine.link.rate (GB/s)",
        "memory.limit (GiB)",
        "plain +1",
        "1.30× recompute",
        "rate 64 GB/s, limit 20 GiB: swap",
    ] {
        assert!(map.contains(text), "{text}: {map}");
    }
    let (legend, _) = map.split_once("</ul>").expect("a legend");
    assert!(["plain", "swap", "recompute"].iter().all(|name| legend.contains(name)), "{legend}");
}

#[test]
fn words_and_single_axes_give_no_map() {
    assert_eq!(mapped(["slow", "fast"]).winners, None);
    let one = mapped(["16 GB/s", "64 GB/s"]);
    assert_eq!(Winners::of(&one.variants, &one.axes, &one.cases[..1]), None, "the limit is a choice there");
}
