//! Noise: the same on every machine, independent of the order of draws, with the moments it promises.

use sim_core::noise::{Factor, Noise, NoiseSource, Pause};
use sim_core::time::Time;

const ONE: f64 = Factor::ONE.0 as f64;

fn per_operation() -> Noise {
    Noise { operation: 0.05, ..Noise::default() }
}

fn per_device() -> Noise {
    Noise { device: 0.05, ..Noise::default() }
}

fn pauses() -> Noise {
    Noise { pause: Some(Pause { every: Time(1_000), lasting: Time(1_000_000) }), ..Noise::default() }
}

/// Mean and standard deviation.
fn moments(samples: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let count = samples.clone().count() as f64;
    let mean = samples.clone().sum::<f64>() / count;
    (mean, (samples.map(|x| (x - mean).powi(2)).sum::<f64>() / count).sqrt())
}

#[test]
fn silence_changes_nothing() {
    let mut source = NoiseSource::new(Noise::default(), 1);
    assert!(source.is_silent());
    assert_eq!(source.factor(3, 4, 5), Factor::ONE);
    assert_eq!(source.pause(4, 5, Time(1_000)), Time::ZERO);
    assert!(!NoiseSource::new(pauses(), 1).is_silent());
}

#[test]
fn draws_are_the_same_in_any_order_and_with_any_left_out() {
    let noise = Noise { device: 0.1, ..per_operation() };
    let mut forward = NoiseSource::new(noise, 9);
    let drawn: Vec<Factor> = (0..200).map(|i| forward.factor(1, 2, i)).collect();

    let mut backward = NoiseSource::new(noise, 9);
    for i in (0..200).rev().step_by(3) {
        backward.factor(1, 3, i); // another stream in between
        assert_eq!(backward.factor(1, 2, i), drawn[i as usize]);
    }
    let mut source = NoiseSource::new(pauses(), 9);
    let in_order: Vec<Time> = (0..50).map(|i| source.pause(0, i, Time(500))).collect();
    assert_eq!(source.pause(0, 17, Time(500)), in_order[17]);
    assert_eq!(
        source.pause(0, u64::MAX, Time(1_000)),
        NoiseSource::new(pauses(), 9).pause(0, u64::MAX, Time(1_000))
    );
}

#[test]
fn streams_of_a_device_share_its_speed_and_devices_differ() {
    let mut source = NoiseSource::new(per_device(), 7);
    let first = source.factor(0, 0, 0);
    assert_eq!(source.factor(0, 1, 12), first);
    assert_ne!(source.factor(1, 2, 0), first);
    assert_ne!(NoiseSource::new(per_device(), 8).factor(0, 0, 0), first);
}

#[test]
fn factors_have_mean_one_and_the_given_deviation() {
    let mut by_operation = NoiseSource::new(per_operation(), 3);
    let mut by_device = NoiseSource::new(per_device(), 3);
    let operations: Vec<f64> = (0..40_000).map(|i| by_operation.factor(0, 0, i).0 as f64 / ONE).collect();
    let devices: Vec<f64> = (0..40_000).map(|i| by_device.factor(i, i, 0).0 as f64 / ONE).collect();
    for samples in [operations, devices] {
        let (mean, deviation) = moments(samples.iter().copied());
        // Four standard errors: 0.05 / sqrt(40,000) and 0.05 / sqrt(80,000).
        assert!((mean - 1.0).abs() < 4.0 * 0.05 / 200.0, "mean {mean}");
        assert!((deviation - 0.05).abs() < 4.0 * 0.05 / 282.0, "deviation {deviation}");
    }
}

#[test]
fn pauses_come_in_proportion_to_time_and_last_as_long_as_given() {
    let mut source = NoiseSource::new(pauses(), 5);
    let pauses: Vec<f64> = (0..40_000)
        .map(|i| source.pause(0, i, Time(250)))
        .filter(|&pause| pause != Time::ZERO)
        .map(|pause| pause.0 as f64)
        .collect();
    // Binomial with p = 1/4: 10,000 +- 87.
    assert!((pauses.len() as f64 - 10_000.0).abs() < 4.0 * 87.0, "{} pauses", pauses.len());
    let (mean, deviation) = moments(pauses.iter().copied());
    assert!((mean - 1e6).abs() < 4.0 * 1e6 / 12f64.sqrt() / 100.0, "mean {mean}");
    assert!((deviation / (1e6 / 12f64.sqrt()) - 1.0).abs() < 0.05, "deviation {deviation}");
    assert!(pauses.iter().all(|&pause| (5e5..=1.5e6).contains(&pause)));

    // Longer than the mean distance: always.
    assert!((0..100).all(|i| source.pause(1, i, Time(1_000)) != Time::ZERO));
}

#[test]
fn absurd_noise_is_bounded() {
    let pause = Some(Pause { every: Time::ZERO, lasting: Time::NEVER });
    let mut source = NoiseSource::new(Noise { device: f64::INFINITY, operation: f64::NAN, pause }, u64::MAX);
    let factor = source.factor(u32::MAX, 0, u64::MAX);
    assert!(factor >= Factor::LEAST);
    assert!(Factor(u64::MAX).scale(Time::NEVER) > Time::LAST);
    assert!(source.pause(0, 0, Time(1)) >= Time(u64::MAX / 2));
}

#[test]
fn scaling_rounds_to_the_nearest_picosecond() {
    assert_eq!(Factor::ONE.scale(Time(123)), Time(123));
    assert_eq!(Factor(3 << 31).scale(Time(1)), Time(2));
    assert_eq!(Factor(Factor::ONE.0 + 1).scale(Time(1_000)), Time(1_000));
}

/// The first draws of each part under seed 42, computed by another implementation of ChaCha8 (RFC 8439's block function
/// with 8 rounds and a 64-bit counter), so that a change of the generator or of its use cannot go unnoticed.
#[test]
fn first_draws_are_golden() {
    let mut operation = NoiseSource::new(per_operation(), 42);
    let mut device = NoiseSource::new(per_device(), 42);
    let mut pause = NoiseSource::new(pauses(), 42);
    assert_eq!(
        (0..16).map(|i| operation.factor(0, 1, i).0).collect::<Vec<_>>(),
        [
            4215895709, 4322724880, 4279109247, 4253339718, 4427395831, 4575261799, 4168284414, 4136127624,
            4212916996, 4134267026, 4529136194, 4438625158, 4374508159, 4770175892, 4559245665, 4356456183
        ]
    );
    assert_eq!(
        (0..16).map(|i| device.factor(i, i, 0).0).collect::<Vec<_>>(),
        [
            3914048810, 4512310825, 4291625694, 4323087727, 4305401181, 4266934764, 4442271991, 4297486973,
            4588404455, 4432455720, 4208320419, 4419701939, 4462564221, 4401462162, 4442770608, 4443432893
        ]
    );
    assert_eq!(
        (0..16).map(|i| pause.pause(1, i, Time(1_000)).0).collect::<Vec<_>>(),
        [
            1360799, 1454522, 1105152, 1120257, 684050, 969650, 1260454, 1107315, 535592, 592071, 1280742,
            1101820, 1290389, 502571, 645095, 1374535
        ]
    );
}
