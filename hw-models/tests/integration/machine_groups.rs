//! Clusters of several kinds of nodes.

use hw_models::machine::{Cluster, Machine, Place};

use super::machine::CATALOGUE;

fn built(text: &str) -> Result<Machine, Vec<hw_models::machine::MachineError>> {
    Machine::build(&CATALOGUE, &serde_yaml::from_str::<Cluster>(text).unwrap())
}

const TWO: &str =
    "{ node: dgx-a100-80g, count: 2, fabric: hdr200-fat-tree, more: [{ node: dgx-1v-32g, count: 3 }] }";

#[test]
fn nodes_are_numbered_group_after_group() {
    let machine = built(TWO).unwrap();
    assert_eq!((machine.nodes(), machine.gpus()), (5, 40));
    assert_eq!(machine.alike_nodes().collect::<Vec<_>>(), [0..2, 2..5]);
    let models: Vec<&str> = machine.gpu_kinds().iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(models, ["a100-sxm4-80gb", "v100-sxm2-32gb"]);
    for gpu in 0..40 {
        let part = machine.part(machine.gpu(gpu));
        assert_eq!(part.name, format!("node[{}].gpu[{}]", gpu / 8, gpu % 8));
        assert_eq!(part.model, Some(models[machine.kind_of_gpu(gpu)]));
        assert_eq!(machine.part_named(&part.name).unwrap(), machine.gpu(gpu));
    }
    assert_eq!((machine.nics_of_node(1), machine.nics_of_node(2)), (8, 4));
    assert_eq!(machine.links().len(), machine.resources().links.len());
    // Both ends of every link know it.
    for link in machine.links() {
        let ends = machine.link(link);
        assert_eq!(machine.link_between(ends.from, ends.to), Some(link), "{}", machine.link_name(link));
    }
}

#[test]
fn the_slower_interface_limits_what_crosses_the_network() {
    let machine = built(TWO).unwrap();
    let rate =
        |from: u32, to: u32| machine.bytes_per_s(&machine.route(machine.gpu(from), machine.gpu(to)).unwrap());
    let (of_a100, of_v100) = (rate(0, 8), rate(16, 24));
    assert!(of_v100 < of_a100);
    for (from, to) in [(0, 16), (16, 0), (7, 39), (39, 7)] {
        assert_eq!(rate(from, to), of_v100);
    }
    let rails = built(&TWO.replace("hdr200-fat-tree", "hdr200-rail-optimised")).unwrap();
    let switches = |from: u32, to: u32| {
        let route = rails.route(rails.gpu(from), rails.gpu(to)).unwrap();
        let to = route.links.iter().map(|&link| rails.part(rails.link(link).to).name);
        to.filter(|name| name.starts_with("fabric.")).collect::<Vec<_>>()
    };
    assert_eq!(switches(0, 16), ["fabric.rail[0]"]);
    assert_eq!(switches(7, 39), ["fabric.rail[7]", "fabric.spine", "fabric.rail[3]"]);
}

#[test]
fn parts_of_one_group_are_set_and_slowed_alone() {
    let machine = built(
        "{ node: dgx-a100-80g, count: 1, more: [{ node: dgx-a100-80g, count: 1, set: { gpu: { memory: 40 GiB } } }], \
         degrade: [{ part: 'node[1].gpu[2]', clock: 50 % }] }",
    )
    .unwrap();
    let memory = |gpu: u32| machine.gpu_model(machine.gpu(gpu)).unwrap().memory_gib;
    assert_eq!((memory(0), memory(8)), (80.0, 40.0));
    assert_eq!([10, 2, 9].map(|gpu| machine.clock(machine.gpu(gpu))), [0.5, 1.0, 1.0]);
}

#[test]
fn a_line_that_is_wrong_is_the_place_of_the_error() {
    let errors = |text: &str| built(text).unwrap_err();
    let unlike = errors("{ node: dgx-a100-80g, count: 1, more: [{ node: dgx-2, count: 1 }] }");
    assert_eq!(unlike[0].place, Place::Setting("more.0.node".to_owned()));
    assert!(unlike[0].to_string().contains("has 16 GPUs"), "{}", unlike[0]);
    let set = errors(
        "{ node: dgx-a100-80g, count: 1, more: [{ node: dgx-1v-32g, count: 1, set: { gpu: { count: 4 } } }] }",
    );
    assert_eq!(set[0].place, Place::Setting("more.0.set.gpu.count".to_owned()));
    let unknown = errors("{ node: dgx-a100-80g, count: 1, more: [{ node: dgx-9, count: 1 }] }");
    assert_eq!(unknown[0].place, Place::Name("dgx-9".to_owned()));
    let many = errors("{ node: dgx-a100-80g, count: 16000, more: [{ node: dgx-1v-32g, count: 16000 }] }");
    assert!(many[0].to_string().contains("256000 GPUs are more"), "{}", many[0]);
    let lines = "{ node: dgx-1v-32g, count: 1 }, { node: dgx-a100-80g, count: 1 }, ".repeat(40);
    let lines = errors(&format!("{{ node: dgx-a100-80g, count: 1, more: [{lines}] }}"));
    assert_eq!(lines[0].place, Place::Setting("more".to_owned()));
}
