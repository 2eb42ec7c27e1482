//! Copies that meet on links: what topology says, in digits.

use hw_models::catalogue::{Catalogue, OneWay};
use hw_models::copies::{CopyCost, CopyStream, rates_at_once};
use hw_models::machine::{Cluster, Machine};
use sim_core::time::Time;

use crate::catalogue::catalogue;
use crate::machine::written;

fn node(name: &str, catalogue: &Catalogue) -> Machine {
    Machine::build(catalogue, &Cluster::new(name, 1)).unwrap()
}

/// Rates (GB/s) of copies that are under way at once, by the names of their ends; each byte passes host memory `passes` times.
fn rates(machine: &Machine, copies: &[[&str; 2]], passes: f64) -> Vec<f64> {
    let part = |name: &str| {
        let is_it = |&part: &_| machine.part(part).name == format!("node[0].{name}");
        machine.parts().find(is_it).unwrap_or_else(|| panic!("no {name}"))
    };
    let cost = CopyCost { latency: Time::ZERO, at_most: None, passes };
    let stream =
        |[from, to]: &[&str; 2]| CopyStream { stops: vec![part(from), part(to)], bytes: 1 << 30, cost };
    let streams: Vec<CopyStream> = copies.iter().map(stream).collect();
    rates_at_once(machine, &streams).unwrap().into_iter().map(|rate| rate / 1e9).collect()
}

fn close(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    for (a, b) in found.iter().zip(expected) {
        assert!((a / b - 1.0).abs() < 1e-3, "{found:?}, expected {expected:?}");
    }
}

/// The rates of a link class are those of this pair.
fn with_link(class: &str, to_device: OneWay, from_device: OneWay) -> Catalogue {
    let mut catalogue = catalogue();
    let copies = catalogue.links[class].copies.as_mut().unwrap();
    (copies.to_device, copies.from_device) = (to_device, from_device);
    catalogue
}

/// Sixteen GPUs below four uplinks (DeepSpeed, issue 1137): from 12 GB/s alone to 3 GB/s each.
#[test]
fn gpus_below_one_uplink_share_it() {
    let way = OneWay { alone: 12.0, against: 12.0 };
    let machine = node("dgx-2", &with_link("pcie3", way, way));
    for (gpus, each) in [(1, 12.0), (2, 6.0), (4, 3.0), (8, 3.0), (16, 3.0)] {
        let names: Vec<(String, String)> =
            (0..gpus).map(|gpu| (format!("memory[{}]", gpu / 8), format!("gpu[{gpu}]"))).collect();
        let copies: Vec<[&str; 2]> = names.iter().map(|(from, to)| [&**from, &**to]).collect();
        close(&rates(&machine, &copies, 1.0), &vec![each; gpus]);
    }
    // One below each uplink, then two.
    let below =
        |gpus: &[&'static str]| -> Vec<[&str; 2]> { gpus.iter().map(|&gpu| ["memory[0]", gpu]).collect() };
    close(&rates(&machine, &below(&["gpu[0]", "gpu[4]"]), 1.0), &[12.0, 12.0]);
    close(&rates(&machine, &below(&["gpu[0]", "gpu[2]", "gpu[4]"]), 1.0), &[6.0, 6.0, 12.0]);
}

/// What the GPU reads gives way to what it writes; several copies of one direction share what is left to it.
#[test]
fn directions_share_a_link_and_not_the_copies_on_it() {
    let machine = {
        let to = OneWay { alone: 25.0, against: 12.0 };
        let from = OneWay { alone: 25.0, against: 24.0 };
        node("dgx-a100-80g", &with_link("pcie4", to, from))
    };
    let (up, down, other) = (["gpu[0]", "memory[0]"], ["memory[0]", "gpu[0]"], ["memory[0]", "gpu[1]"]);
    close(&rates(&machine, &[up], 1.0), &[25.0]);
    close(&rates(&machine, &[down], 1.0), &[25.0]);
    close(&rates(&machine, &[up, down], 1.0), &[24.0, 12.0]);
    close(&rates(&machine, &[up, down, other], 1.0), &[24.0, 6.0, 6.0]);
    close(&rates(&machine, &[up, ["gpu[1]", "memory[0]"], down], 1.0), &[12.0, 12.0, 12.0]);
}

/// The four GPUs behind a second switch share the turn of one port with each of the first four.
#[test]
fn an_output_port_serves_its_input_ports_in_turn() {
    let way = OneWay { alone: 10.0, against: 10.0 };
    let machine = node("supermicro-4029gp-trt3", &with_link("pcie3", way, way));
    let up =
        |gpus: &[&'static str]| -> Vec<[&str; 2]> { gpus.iter().map(|&gpu| [gpu, "memory[0]"]).collect() };
    close(&rates(&machine, &up(&["gpu[0]", "gpu[1]"]), 1.0), &[5.0, 5.0]);
    close(&rates(&machine, &up(&["gpu[0]", "gpu[4]", "gpu[5]"]), 1.0), &[5.0, 2.5, 2.5]);
    // Reads are answered by the memory, one as soon as another.
    let down: Vec<[&str; 2]> = ["gpu[0]", "gpu[4]", "gpu[5]"].map(|gpu| ["memory[0]", gpu]).to_vec();
    close(&rates(&machine, &down, 1.0), &[10.0 / 3.0; 3]);
}

/// A pageable copy takes three times its bytes of the memory, so that fewer of them fill it.
#[test]
fn pageable_copies_pass_the_memory_thrice() {
    let spec = Cluster {
        set: [("memory[0]".to_owned(), written("{ rate: 90 GB/s }"))].into(),
        ..Cluster::new("epyc-pcie-8x", 1)
    };
    let machine = Machine::build(&catalogue(), &spec).unwrap();
    let copies: Vec<[&str; 2]> =
        ["gpu[0]", "gpu[1]", "gpu[2]", "gpu[3]"].map(|gpu| ["memory[0]", gpu]).to_vec();
    close(&rates(&machine, &copies[..1], 1.0), &[26.24]);
    close(&rates(&machine, &copies, 1.0), &[22.5; 4]);
    close(&rates(&machine, &copies, 3.0), &[7.5; 4]);
}

/// A full memory is shared by requests, of which all processors have 77 for 42 of each copy engine; nobody gets more than alone.
#[test]
fn processors_and_copies_share_a_full_memory_by_their_requests() {
    let rates = |memory: f64, alone: f64, gpus: u32| {
        let set = [("memory[0]".to_owned(), written(&format!("{{ rate: {memory} GB/s }}")))];
        let spec = Cluster { set: set.into(), ..Cluster::new("dgx-h100", 1) };
        let machine = Machine::build(&catalogue(), &spec).unwrap();
        let node_memory = machine.memory_of(machine.gpu(0)).unwrap();
        let cost = |at_most| CopyCost { latency: Time::ZERO, at_most, passes: 1.0 };
        let reading = CopyStream { stops: vec![node_memory], bytes: 1 << 30, cost: cost(Some(alone * 1e9)) };
        let copy = |gpu| CopyStream {
            stops: vec![node_memory, machine.gpu(gpu)],
            cost: cost(None),
            ..reading.clone()
        };
        let streams: Vec<CopyStream> = [reading.clone()].into_iter().chain((0..gpus).map(copy)).collect();
        rates_at_once(&machine, &streams).unwrap().into_iter().map(|rate| rate / 1e9).collect::<Vec<_>>()
    };
    close(&rates(119.0, 1e3, 1), &[77.0, 42.0]);
    close(&rates(119.0, 1e3, 0), &[119.0]);
    // Who reaches less than that leaves the rest, and who has a slow link does.
    close(&rates(119.0, 70.0, 1), &[70.0, 49.0]);
    close(&rates(300.0, 1e3, 1), &[300.0 - 56.15, 56.15]);
    close(&rates(77.0 + 4.0 * 42.0, 1e3, 4), &[77.0, 42.0, 42.0, 42.0, 42.0]);
}

/// Each GPU at its own port: those of the other socket share the link between the sockets, the others what is left of the memory.
#[test]
fn gpus_of_the_other_socket_share_the_link_between_them() {
    let spec = Cluster {
        set: [("memory[0]".to_owned(), written("{ rate: 278 GB/s }"))].into(),
        ..Cluster::new("dgx-h100", 1)
    };
    let machine = Machine::build(&catalogue(), &spec).unwrap();
    let names: Vec<String> = (0..8).map(|gpu| format!("gpu[{gpu}]")).collect();
    let copies: Vec<[&str; 2]> = names.iter().map(|gpu| ["memory[0]", &**gpu]).collect();
    let [near, far] = [(278.0 - 101.7) / 4.0, 101.7 / 4.0];
    close(&rates(&machine, &copies, 1.0), &[near, near, near, near, far, far, far, far]);
}

/// Alone, by the simulation and by the sum of what a byte spends.
#[test]
fn a_copy_alone_gets_what_its_slowest_link_leaves() {
    let machine = node("dgx-1p", &catalogue());
    let parts: Vec<_> = machine.parts().collect();
    let named = |name: &str| {
        parts.iter().copied().find(|&part| machine.part(part).name == format!("node[0].{name}")).unwrap()
    };
    for stops in [
        vec!["gpu[0]", "memory[0]"],
        vec!["memory[1]", "gpu[3]"],
        vec!["gpu[0]", "memory[0]", "gpu[1]"],
        vec!["gpu[0]", "memory[0]", "gpu[7]"],
    ] {
        let stops: Vec<_> = stops.into_iter().map(named).collect();
        let route = machine.route_by_way_of(&stops).unwrap();
        for passes in [1.0, 3.0] {
            let cost = CopyCost { latency: Time::ZERO, at_most: None, passes };
            let stream = CopyStream { stops: stops.clone(), bytes: 1 << 30, cost };
            let simulated = rates_at_once(&machine, &[stream]).unwrap();
            close(&simulated, &[machine.copy_bytes_per_s(&route, passes)]);
        }
    }
}
