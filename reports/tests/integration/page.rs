//! The report page: complete, self-contained, readable, safe.

use reports::{Summary, html};

use crate::fixture::{self, bare, comparison, summary, sweep, too_big, two_axes};

pub(crate) fn page(summary: &Summary) -> String {
    let mut out = Vec::new();
    html::write(&mut out, summary).expect("a vector takes every byte");
    let text = String::from_utf8(out).expect("text");
    if let Ok(folder) = std::env::var("FORETRAIN_PAGES") {
        let path =
            std::path::Path::new(&folder).join(format!("{}-{}.html", summary.name, summary.variants.len()));
        std::fs::write(path, &text).expect("the folder can be written");
    }
    text
}

#[test]
fn look() {
    for summary in [comparison(), sweep(), two_axes()] {
        page(&summary);
    }
    page(&summary("one", &[], comparison().variants.into_iter().take(1).collect()));
    page(&summary("none-fits", &[], vec![too_big("plain", 4_000_000_000), too_big("gpipe", 9_000_000_000)]));
    page(&summary("bare", &[], vec![bare("plain", 1.0), bare("<script>alert(1)</script>", 9.0)]));
    let _ = fixture::at;
}
