//! Eager execution: Python issues each operator, and waits where it reads a value.

use sim_core::time::Time;

use crate::program::issuer::{Issuer, Part, ThreadId};
use crate::program::path::{Step, What};

/// Executes steps; each operator takes `more` of Python.
pub(super) fn steps(issuer: &mut Issuer<'_>, steps: &[Step], more: Time) {
    for step in steps {
        match step.what {
            What::Run(region) => issuer.eager(region, more),
            what => {
                issuer.issuing(None);
                python(issuer, what);
            }
        }
    }
    issuer.issuing(None);
}

/// Work of Python by itself.
pub(super) fn python(issuer: &mut Issuer<'_>, what: What) {
    match what {
        What::Batch => {
            issuer.next_batch();
            issuer.copy_batch(ThreadId::PYTHON);
        }
        What::Scalar => issuer.copy_number(ThreadId::PYTHON),
        What::Fetch(_) | What::Decide(_) => {
            let copy = issuer.copy_result(ThreadId::PYTHON);
            issuer.block(ThreadId::PYTHON, copy);
        }
        What::Python(time) => issuer.work(ThreadId::PYTHON, Part::Python, time),
        What::ThirdParty(time, holds_lock) => issuer.third_party(time, holds_lock),
        What::Run(_) | What::Mutate | What::Unwinds => {}
    }
}
