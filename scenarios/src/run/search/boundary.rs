//! The last of values that fits, where each fits if the next one does: steps that double until one
//! does not fit, then halves of what is left.
//!
//! Values whose settings do not go together say nothing of others: the nearest one before is taken.

/// What is known of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Fits,
    DoesNotFit,
    /// No plan of it goes together.
    Impossible,
    /// The search was stopped before that was known.
    Stopped,
}

/// The last one of values that fits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Boundary {
    /// `None`: none is known to.
    pub(super) fits: Option<u64>,
    /// True if it was stopped before that was known.
    pub(super) stopped: bool,
}

/// Impossible values in a row after which no other of them is looked at.
const ROW_MAX: u64 = 64;

/// Looks for the last of so many values that fits; none is asked for twice.
///
/// # Errors
/// Those of `ask`.
pub(super) fn boundary<E>(values: u64, mut ask: impl FnMut(u64) -> Result<Answer, E>) -> Result<Boundary, E> {
    let mut found = Boundary::default();
    // The first value that is not known to fit, and the first that is known not to.
    let (mut from, mut end) = (0, values);
    let mut step = 1;
    while from < end {
        let all_fit = end == values;
        let middle = if all_fit { (from + step).min(values) - 1 } else { from + (end - from) / 2 };
        step *= 2;
        match last_possible(from, middle, &mut ask)? {
            None => from = middle + 1,
            Some((value, Answer::Fits)) => {
                found.fits = Some(value);
                from = middle + 1;
            }
            Some((_, Answer::Stopped)) => return Ok(Boundary { stopped: true, ..found }),
            Some((value, _)) => end = value,
        }
    }
    Ok(found)
}

/// The last value from one to another that is possible, and what is known of it.
fn last_possible<E>(
    from: u64,
    to: u64,
    ask: &mut impl FnMut(u64) -> Result<Answer, E>,
) -> Result<Option<(u64, Answer)>, E> {
    for value in (from..=to).rev().take(ROW_MAX as usize) {
        match ask(value)? {
            Answer::Impossible => {}
            answer => return Ok(Some((value, answer))),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The last value that fits where the first so many do and multiples of a number are possible.
    fn last(values: u64, fit: u64, multiple: u64) -> (Option<u64>, usize) {
        let mut asked = Vec::new();
        let found = boundary(values, |value| {
            assert!(!asked.contains(&value), "{value} is asked for twice");
            asked.push(value);
            Ok::<_, ()>(match (value.is_multiple_of(multiple), value < fit) {
                (false, _) => Answer::Impossible,
                (true, true) => Answer::Fits,
                (true, false) => Answer::DoesNotFit,
            })
        });
        (found.expect("nothing goes wrong").fits, asked.len())
    }

    #[test]
    fn the_last_value_that_fits_is_found() {
        for values in 1..70 {
            for fit in 0..=values {
                for multiple in [1, 2, 3, 7] {
                    let expected = (0..fit).rev().find(|value| value % multiple == 0);
                    assert_eq!(last(values, fit, multiple).0, expected, "{fit} of {values}, {multiple}");
                }
            }
        }
    }

    #[test]
    fn few_values_are_asked_for() {
        assert!((0..=4096).all(|fit| last(4096, fit, 1).1 <= 25));
    }

    #[test]
    fn one_that_is_stopped_keeps_what_fits() {
        let mut left = 3;
        let found = boundary(1000, |_| {
            left -= 1;
            Ok::<_, ()>(if left > 0 { Answer::Fits } else { Answer::Stopped })
        });
        assert_eq!(found, Ok(Boundary { fits: Some(2), stopped: true }));
    }
}
