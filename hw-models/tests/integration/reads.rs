//! Reads of host memory: what a row pays, what order and SMs do, and links that scenarios describe.

use hw_models::machine::{Cluster, Machine};
use hw_models::reads::{LinkReads, Order, RowReads, index_bytes, sorting};
use proptest::prelude::*;

use super::machine::CATALOGUE;

#[test]
fn random_rows_of_a_huge_table_wait_for_walks_of_page_tables() {
    let link = link("pcie4");
    let ratio = |table_rows, row_bytes| {
        let reads = |order| RowReads { order, ..rows(1_000_000, table_rows, row_bytes) };
        let seconds = |order| link.cost(&reads(order), 108).alone().as_secs();
        seconds(Order::Random) / seconds(Order::Sorted)
    };
    // 18,966 against 4,389 MB/s (github.com/dmlc/dgl, pull request 6635).
    let huge = ratio(100_000_000, 188);
    assert!((huge / (18_966.0 / 4_389.0) - 1.0).abs() < 0.2, "{huge}");
    let small = ratio(1_000_000, 512);
    assert!((small - 1.0).abs() < 0.01, "{small}");
}

#[test]
fn a_number_pays_a_sector_and_long_rows_the_payload_rate() {
    let link = link("pcie5");
    let numbers = link.cost(&rows(100_000, 1_000_000, 4), 132);
    assert_eq!((numbers.lines, numbers.bytes), (100_000, 3_200_000));
    let long = link.cost(&rows(100_000, 100_000, 4_096), 132);
    let rate = long.cap.units_per_second();
    assert!((0.95..=1.001).contains(&(rate / link.payload().units_per_second())), "{rate}");
}

#[test]
fn few_sms_saturate_a_link_and_fewer_do_not() {
    let (link, rows) = (link("pcie5"), rows(1_000_000, 1_000_000, 512));
    let all = link.cost(&rows, 132);
    assert!((24..=64).contains(&all.sms), "{}", all.sms);
    let rate = |sms| link.cost(&rows, sms).cap.units_per_second();
    assert!((0.979..1.0).contains(&(rate(all.sms) / rate(132))), "those that it holds lose 2 % at most");
    let [four, eight] = [4, 8].map(rate);
    assert!((1.8..2.0).contains(&(eight / four)) && eight < rate(132));
}

#[test]
fn indices_are_uploaded_and_sorting_costs_more_than_it_saves_on_few() {
    assert_eq!(index_bytes(250_000), 2_000_000);
    let [few, many] = [1_000, 1_000_000].map(|rows| sorting(rows, 3.35e12).as_secs());
    assert!((few / 35.8e-6 - 1.0).abs() < 0.01 && (many / 188e-6 - 1.0).abs() < 0.02);
}

#[test]
fn links_that_scenarios_describe_have_reads() {
    let reads = |class: &str| {
        let mut spec = Cluster::new("epyc-pcie-8x", 1);
        spec.set.insert("gpu".to_owned(), serde_yaml::from_str(class).unwrap());
        let machine = Machine::build(&CATALOGUE, &spec).unwrap();
        let link = machine.link_named("node[0].gpu[0] -> node[0].socket[0]").unwrap();
        machine.link(link).reads.unwrap()
    };
    let known = link("pcie4");
    assert_eq!(reads("{ class: { like: pcie4, name: riser, rate: 13.05 GB/s } }"), known.times(0.5));
    let given = "{ in_flight: 256, round_trip: 1.5 us, payload: 20 GB/s }";
    let found = reads(&format!("{{ class: {{ like: pcie4, name: riser, reads: {given} }} }}"));
    let (in_flight, round_trip_us, payload_gb_per_s) = (256.0, 1.5, 20.0);
    assert_eq!(found, LinkReads { in_flight, round_trip_us, payload_gb_per_s, ..known });
}

proptest! {
    /// Rows that are longer, or of a larger table, or more of them, never take less.
    #[test]
    fn more_takes_longer(
        count in 1_u64..1_000_000,
        table in 1_000_000_u64..50_000_000,
        elements in 1_u64..1_000,
        sms in 1_u32..140,
        sorted: bool,
    ) {
        let order = if sorted { Order::Sorted } else { Order::Random };
        let time = |count, table, elements| {
            let reads = RowReads { order, ..rows(count, table, 4 * elements) };
            link("pcie4").cost(&reads, sms).alone().0
        };
        let once = time(count, table, elements);
        prop_assert!(time(2 * count, table, elements) >= once);
        // From 256 bytes on neighbours of a sorted list share no lines.
        let wide = elements.max(64);
        prop_assert!(time(count, table, 2 * wide) >= time(count, table, wide));
    }
}

fn link(class: &str) -> LinkReads {
    CATALOGUE.links[class].read(16).unwrap()
}

fn rows(rows: u64, table_rows: u64, row_bytes: u64) -> RowReads {
    let (element_bytes, offset, order, aligned) = (row_bytes.min(4), 0, Order::Random, true);
    RowReads { rows, table_rows, row_bytes, pitch: row_bytes, element_bytes, offset, order, aligned }
}
