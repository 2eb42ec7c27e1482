//! The page of a calibration.

use reports::calibration::{Calibration, Constant, Errors, FitPoint, Law, Met, html};

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
        held_out: Some(Errors {
            samples: 5,
            mean: 0.025,
            interval: Some([0.01, 0.04]),
            median: 0.011,
            p95: 0.05,
            worst: 0.051,
            bias: -0.02,
        }),
        decades: Some(Errors { samples: 9, mean: 0.077, ..Errors::default() }),
        catalogue: None,
        refused: 2,
    };
    let calibration = Calibration {
        device: "<EPYC>".to_owned(),
        file: "mine.yaml".to_owned(),
        drift: Some(0.07),
        met: vec![Met {
            timed: "a product".to_owned(),
            meanwhile: "copies".to_owned(),
            measured: 1.25,
            predicted: 1.20,
        }],
        unused: vec!["memory.copy.core".to_owned(), "memory.copy.all".to_owned()],
        laws: vec![
            law.clone(),
            Law { name: "none".to_owned(), ..Law::default() },
            Law {
                name: "few".to_owned(),
                held_out: law.held_out.map(|errors| Errors { samples: 4, ..errors }),
                points: Vec::new(),
                constants: vec![Constant { told: true, ..law.constants[0].clone() }],
                ..law
            },
        ],
        ..Calibration::default()
    };
    let text = page(&calibration);
    for wanted in [
        "&lt;EPYC&gt;",
        "3 laws from 3 tasks; one constant is not identifiable: scenarios keep the catalogue's.",
        "Results drifted</span> by 7.00 % during the run",
        "<code>--budget 300</code>",
        "core</td><td class=\"number\">12.5 GB/s</td><td class=\"number\">1.20 %</td><td>no model yet</td>",
        "<span class=\"bad\">not identifiable</span> (catalogue value kept)",
        "<a href=\"#few\">few</a> core</td><td class=\"number\">12.5 GB/s</td><td class=\"number\">1.20 %</td><td>scenarios with this file</td>",
        // Of four there are no statistics.
        "<td class=\"number\">0</td><td class=\"number\">4</td><td class=\"number\">–</td>",
        "calibration: [mine.yaml]",
        "<td>a product</td><td>copies</td><td class=\"number\">1.25×</td><td class=\"number\">1.20×</td>",
        "<td class=\"number\">-5.00 points</td>",
        // Three tasks, five samples held out: mean, interval, median, 95th percentile, worst, bias; then those of other decades.
        "<td class=\"number\">3</td><td class=\"number\">5</td><td class=\"number\">2.50 %</td>",
        "<td class=\"number\">1.00 % to 4.00 %</td><td class=\"number\">1.10 %</td>",
        "<td class=\"number\">-2.00 %</td><td class=\"number\">7.70 %</td></tr>",
        "2 were left out",
        "copy 0.002 (held out)",
    ] {
        assert!(text.contains(wanted), "no {wanted} in {text}");
    }
    assert!(!text.contains("of the catalogue</th>"), "no law has such errors");
    assert_eq!(text.matches("12.5 GB/s").count(), 2, "what cannot be identified is no number");
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
