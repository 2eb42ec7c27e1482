//! The caching allocator against the plain one: the same results, whatever the list.

use hw_models::allocator::{Request, Settings, StreamNumber, replay, replay_plainly};
use hw_models::settings::{Bytes, Count};
use proptest::prelude::*;

const MIB: u64 = 1 << 20;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn as_the_plain_one(
        steps in prop::collection::vec(step(), 1..200),
        settings in settings(),
        capacity in prop_oneof![Just(u64::MAX), 20 * MIB..400 * MIB],
    ) {
        let list = list(&steps);
        let usage = replay(&list, capacity, &settings).unwrap();
        prop_assert_eq!(&usage, &replay_plainly(&list, capacity, &settings).unwrap());
        for moment in [usage.peak_allocated, usage.peak_reserved] {
            prop_assert!(moment.requested <= moment.allocated);
            prop_assert!(moment.allocated + moment.lent <= moment.reserved);
            prop_assert!(moment.reserved <= capacity);
        }
        prop_assert_eq!(
            usage.by_kind.iter().map(|(_, bytes)| bytes).sum::<u64>(),
            usage.peak_allocated.allocated
        );
    }

    #[test]
    fn any_list_is_served_or_refused(
        list in prop::collection::vec(any_request(), 0..60),
        settings in any::<(Option<u64>, Option<u32>, bool)>(),
        capacity in any::<u64>(),
    ) {
        let (split, divisions, expandable_segments) = settings;
        let max_split_size = split.map(Bytes::new_bytes);
        let roundup_power2_divisions = divisions.and_then(|steps| Count::new(steps.into()));
        let settings = Settings { max_split_size, roundup_power2_divisions, expandable_segments };
        prop_assert_eq!(replay(&list, capacity, &settings), replay_plainly(&list, capacity, &settings));
    }
}

/// What a program does next; numbers choose among the tensors that it may be done to.
#[derive(Clone, Copy, Debug)]
enum Step {
    Allocate(u64, u32),
    Lend(u32),
    Done(u32),
    Free(u32),
}

fn step() -> impl Strategy<Value = Step> {
    let bytes = prop_oneof![
        0..3_000u64,
        MIB - 1_024..MIB + 1_024,
        MIB..25 * MIB,
        (10u64..120).prop_map(|mib| mib * MIB),
    ];
    prop_oneof![
        4 => (bytes, 0..2u32).prop_map(|(bytes, stream)| Step::Allocate(bytes, stream)),
        1 => any::<u32>().prop_map(Step::Lend),
        1 => any::<u32>().prop_map(Step::Done),
        3 => any::<u32>().prop_map(Step::Free),
    ]
}

fn settings() -> impl Strategy<Value = Settings> {
    let split = prop_oneof![Just(None), (21..150u64).prop_map(|mib| Some(Bytes::new_bytes(mib * MIB)))];
    let divisions = prop_oneof![Just(None), (0..7u32).prop_map(|power| Count::new(1 << power))];
    (split, divisions, any::<bool>()).prop_map(
        |(max_split_size, roundup_power2_divisions, expandable_segments)| Settings {
            max_split_size,
            roundup_power2_divisions,
            expandable_segments,
        },
    )
}

fn any_request() -> impl Strategy<Value = Request> {
    prop_oneof![
        any::<u64>().prop_map(|bytes| Request::Allocate { bytes, stream: StreamNumber(0), kind: "tensor" }),
        (0..30u32).prop_map(Request::Lend),
        (0..30u32).prop_map(Request::Done),
        (0..30u32).prop_map(Request::Free),
    ]
}

/// The list of steps that can be made.
fn list(steps: &[Step]) -> Vec<Request> {
    let (mut alive, mut lent, mut made) = (Vec::new(), Vec::new(), 0);
    let pick = |among: &[u32], choice: u32| (!among.is_empty()).then(|| choice as usize % among.len());
    let mut list = Vec::new();
    for &step in steps {
        list.extend(match step {
            Step::Allocate(bytes, stream) => {
                alive.push(made);
                made += 1;
                let kind = if made % 3 == 0 { "gradients" } else { "activations" };
                Some(Request::Allocate { bytes, stream: StreamNumber(stream), kind })
            }
            Step::Lend(choice) => pick(&alive, choice).map(|n| {
                lent.push(alive[n]);
                Request::Lend(alive[n])
            }),
            Step::Done(choice) => pick(&lent, choice).map(|n| {
                let id = lent[n];
                lent.retain(|&other| other != id);
                Request::Done(id)
            }),
            Step::Free(choice) => pick(&alive, choice).map(|n| Request::Free(alive.swap_remove(n))),
        });
    }
    list
}
