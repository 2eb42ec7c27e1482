//! The page of a calibration.

use reports::calibration::{Calibration, Constant, FitPoint, Law, html};

fn page(calibration: &Calibration) -> String {
    let mut page = Vec::new();
    html(&mut page, calibration).expect("memory takes it");
    String::from_utf8(page).expect("text")
}

fn point(measured_s: f64, predicted_s: f64, held_out: bool) -> FitPoint {
    FitPoint { task: format!("copy {measured_s}"), measured_s, predicted_s, held_out, unstable: false }
}

#[test]
fn a_page_shows_every_law_with_its_constants_and_what_is_left_over() {
    let constant = |name: &str, error| Constant {
        name: name.to_owned(),
        value: 12.5,
        unit: "GB/s".to_owned(),
        error,
        told: error.is_some(),
    };
    let law = Law {
        name: "memory.copy".to_owned(),
        method: "by hand".to_owned(),
        constants: vec![constant("core", Some(0.012)), constant("all", None)],
        points: vec![point(1e-3, 1.02e-3, false), point(2e-3, 1.9e-3, true), point(4e-3, 4e-3, true)],
        refused: 2,
    };
    let calibration = Calibration {
        device: "<EPYC>".to_owned(),
        drift: Some(0.07),
        laws: vec![law, Law { name: "none".to_owned(), ..Law::default() }],
        ..Calibration::default()
    };
    let text = page(&calibration);
    for wanted in [
        "&lt;EPYC&gt;",
        "2 laws from 3 tasks; the records do not tell one constant",
        "The device changed</span> by 7.00 %",
        "<td class=\"number\">1.20 %</td>",
        "not told",
        // Of two held-out errors, 0 and -5 %, the median by nearest rank and the 90th percentile.
        "<td class=\"number\">0 %</td><td class=\"number\">5.00 %</td>",
        "2 were left out",
        "copy 0.002 (held out)",
    ] {
        assert!(text.contains(wanted), "no {wanted} in {text}");
    }
    let circles = |colour: &str| text.matches(&format!("fill=\"{colour}\"")).count();
    assert_eq!(text.matches("<circle").count(), 6, "each point beside its prediction and what is left over");
    assert!(circles("#0072B2") >= 2 && circles("#E69F00") >= 4, "held-out points have another colour");
}

#[test]
fn odd_numbers_draw_no_broken_picture() {
    let points = vec![point(0.0, 0.0, false), point(f64::NAN, 1.0, true), point(1.0, f64::INFINITY, false)];
    let law = Law { name: "odd".to_owned(), points, ..Law::default() };
    let text = page(&Calibration { laws: vec![law], steady: true, ..Calibration::default() });
    assert!(!text.replace("copy NaN", "").contains("NaN") && text.contains("</html>"));
}
