//! Costs of issuing an operator, by framework.

use hw_models::framework::{FRAMEWORKS, Framework};
use hw_models::host::{HostCosts, OpClass};
use hw_models::provenance::Origin;
use indexmap::IndexMap;
use sim_core::time::Time;

fn framework(name: &str) -> Framework {
    let mut all: IndexMap<String, Framework> = serde_yaml::from_str(FRAMEWORKS).expect("YAML");
    all.swap_remove(name).expect("a framework of the catalogue")
}

/// A host on which a product takes 20 us and a launch 2, as measured at some place.
fn host(origin: &str) -> HostCosts {
    let text = format!(
        "dispatch: {{ matrix-product: {{ us: 20.0, provenance: &p {{ origin: {origin}, source: made up, confidence: low }} }} }}
launch: {{ us: 2.0, provenance: *p }}
neighbour: {{ us: 0.0, provenance: *p }}
gap_in_stream: {{ us: 0.0, provenance: *p }}
gap_in_graph: {{ us: 0.0, provenance: *p }}
graph_launch: {{ us: 0.0, provenance: *p }}
graph_node: {{ us: 0.0, provenance: *p }}
synchronise: {{ us: 0.0, provenance: *p }}
variation: {{ share: 0.0, provenance: *p }}
allocation: {{ us: 0.0, gb_per_s: 1, provenance: *p }}
release: {{ us: 0.0, gb_per_s: 1, provenance: *p }}
"
    );
    serde_yaml::from_str(&text).expect("a host")
}

#[test]
fn what_was_measured_here_counts_before_the_profile_that_calibrate_measures() {
    let [here, elsewhere] = ["measured-here", "estimate"].map(host);
    assert_eq!(here.launch.provenance.origin, Origin::MeasuredHere);
    // Convolutions cost what products do where nobody has measured them.
    for class in [OpClass::MatrixProduct, OpClass::Convolution] {
        let torch = framework("pytorch-2");
        for (host, backward) in [(&here, false), (&here, true), (&elsewhere, false)] {
            let issue = torch.issue(host, class, backward);
            assert_eq!(issue.dispatch.0 + torch.interpreter.time().0, Time::from_us(20).0);
            assert_eq!(issue.launch, Time::from_us(2));
        }
        let issue = torch.issue(&elsewhere, class, true);
        assert_eq!(issue.dispatch, torch.backward[&OpClass::MatrixProduct].time());
    }
    // `calibrate` says nothing about another framework.
    let tensorflow = framework("tensorflow-2.4");
    let issue = tensorflow.issue(&here, OpClass::MatrixProduct, false);
    assert_eq!(issue.dispatch, tensorflow.dispatch[&OpClass::MatrixProduct].time());
}
