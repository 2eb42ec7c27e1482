//! Kernels of a framework on a GPU that is made up, measured and fitted.

use calibration::measure::framework_suite;
use hw_models::kernels::{Correct, KernelModel, StreamClass, StreamParameters};
use hw_models::provenance::Origin;

use crate::known::model;
use crate::products::{FACTS, GPU, hardware, records};

/// What its classes achieve of the bandwidth, and how long their kernels take to start (us): none is the catalogue's.
const STREAMS: [(StreamClass, f64, f64); 6] = [
    (StreamClass::Elementwise, 0.71, 3.1),
    (StreamClass::Softmax, 0.62, 4.3),
    (StreamClass::LayerNorm, 0.77, 3.7),
    (StreamClass::RmsNorm, 0.55, 2.2),
    (StreamClass::Reduction, 0.47, 5.9),
    (StreamClass::Optimizer, 0.81, 2.5),
];

fn truth() -> KernelModel {
    let mut truth = model(GPU).correcting(Correct::Never);
    for (class, achieved, start_us) in STREAMS {
        let known = truth.parameters.stream(class).unwrap().clone();
        let stream = StreamParameters { achieved, start_us, ..known };
        truth.parameters.stream.insert(class, stream);
    }
    let embedding = truth.parameters.stream.get_mut(&StreamClass::Embedding).unwrap();
    embedding.per_clock = Some(1.4);
    let attention = &mut truth.parameters.attention;
    attention.head_dim_64 = 0.7;
    (attention.forward.e_max, attention.forward.tail) = (0.52, 0.4);
    (attention.backward.e_max, attention.backward.tail) = (0.41, 0.9);
    truth
}

#[test]
fn passes_and_attention_of_a_made_up_gpu_are_found_within_two_per_cent() {
    let found = hardware(records(&framework_suite(Some(&FACTS), false), &truth())).kernels.unwrap();
    for (name, class) in &found.classes {
        assert!(class.held_out.samples >= 2 && class.held_out.worst < 0.02, "{name}: {}", class.held_out);
    }
    let streams = &found.constants.stream;
    for (class, achieved, start_us) in STREAMS {
        let stream = &streams[&class];
        assert!((stream.achieved / achieved - 1.0).abs() < 0.02, "{class:?}: {}", stream.achieved);
        assert!((stream.start_us / start_us - 1.0).abs() < 0.02, "{class:?}: {} us", stream.start_us);
        assert_eq!(stream.provenance.origin, Origin::MeasuredHere);
    }
    let per_clock = streams[&StreamClass::Embedding].per_clock.unwrap();
    assert!((per_clock / 1.4 - 1.0).abs() < 0.02, "{per_clock}");
    let attention = found.constants.attention.unwrap();
    assert_eq!(attention.provenance.origin, Origin::MeasuredHere);
    assert!((attention.head_dim_64 / 0.7 - 1.0).abs() < 0.02, "{attention:?}");
    for (pass, e_max, tail) in [(&attention.forward, 0.52, 0.4), (&attention.backward, 0.41, 0.9)] {
        assert!((pass.e_max / e_max - 1.0).abs() < 0.02, "{pass:?}");
        assert!((pass.tail / tail - 1.0).abs() < 0.02, "{pass:?}");
    }
}
