//! Machines whose parts are not those of the catalogue.

use hw_models::machine::{Cluster, Constant, Machine, PartSettings, RouteKind};

use super::machine::{CATALOGUE, cluster, errors, machine, rate, way, written};

/// A DGX A100 with parts of its own.
fn with(set: &[(&str, &str)]) -> Cluster {
    let change = |(part, change): &(&str, &str)| ((*part).to_owned(), written::<PartSettings>(change));
    let set = set.iter().map(change).collect();
    Cluster { set, ..cluster("dgx-a100-80g", 2) }
}

#[test]
fn parts_can_differ_from_the_catalogue() {
    let built = |set: &[(&str, &str)]| Machine::build(&CATALOGUE, &with(set)).unwrap();
    let gpu = built(&[("gpu", "{ memory: 141 GiB, rate: 4800 GB/s }")]);
    let model = gpu.gpu_model(gpu.gpu(9)).unwrap();
    assert_eq!((model.memory_gib, model.bandwidth_gb_per_s, model.sms), (141.0, 4_800.0, 108));
    assert_eq!(gpu.part(gpu.gpu(9)).model, Some("a100-sxm4-80gb"), "its kernels are still those of an A100");
    let of_scenario = |machine: &Machine| -> Vec<String> {
        let source = |constant: &&Constant| constant.provenance.source == "written in the scenario";
        machine.constants().filter(source).map(|constant| constant.name.to_owned()).collect()
    };
    assert_eq!(of_scenario(&gpu), ["memory_gib", "bandwidth_gb_per_s"]);

    // One interface at every second switch, so that both sockets have one.
    let few = built(&[("nic", "{ count: 2 }")]);
    assert_eq!(few.nics_of_node(0), 2);
    let above = |nic: u32| way(&few, &format!("node[0].nic[{nic}]"), &format!("node[0].memory[{nic}]"));
    assert_eq!((above(0)[1].as_str(), above(1)[1].as_str()), ("node[0].switch[1]", "node[0].switch[3]"));
    let twice = built(&[("nic", "{ count: 16 }")]);
    assert_eq!(twice.nics_of_node(0), 16);
    let other = "{ model: connectx-4-edr100 }";
    assert_eq!(rate(&built(&[("nic", other)]), "node[1].nic[7] -> fabric.spine"), 12e9);

    let host = built(&[("memory", "{ rate: 100 GB/s }"), ("memory[1]", "{ memory: 64 GiB }")]);
    let size = |name: &str| host.part(host.part_named(name).unwrap()).capacity.unwrap() >> 30;
    assert_eq!((size("node[0].memory[0]"), size("node[1].memory[1]")), (1024, 64));
    assert_eq!(rate(&host, "node[0].socket[0] -> node[0].memory[0]"), 100e9);
    assert_eq!(rate(&host, "node[0].socket[1] -> node[0].memory[1]"), 100e9);
    let alone = built(&[("gpu", "{ nvlinks: 0 }")]);
    assert_eq!(alone.route(alone.gpu(0), alone.gpu(1)).unwrap().kind, RouteKind::Peer);
    let half = built(&[("gpu", "{ nvlinks: 6 }")]);
    assert_eq!(rate(&half, "node[0].gpu[0] -> node[0].nvswitch"), 120e9);
}

#[test]
fn a_node_without_network_interfaces_gets_some_at_the_sockets_of_its_gpus() {
    let built = |node: &str, nic: &str| {
        let set = [("nic".to_owned(), written::<PartSettings>(nic))].into_iter().collect();
        let fabric = Some("roce25-fat-tree".to_owned());
        Machine::build(&CATALOGUE, &Cluster { set, fabric, ..cluster(node, 2) })
    };
    let above = |node: &str, nic: &str| {
        let machine = built(node, nic).unwrap();
        assert_eq!(machine.nics_of_node(1), 1);
        way(&machine, "node[0].nic[0]", "node[0].memory[0]")[1].clone()
    };
    let one = "{ model: roce-25gbe, count: 1 }";
    // GPUs of the first have both sockets, those of the second have one.
    assert_eq!(above("supermicro-4029gp-trt", one), "node[0].socket[1]");
    assert_eq!(above("supermicro-4029gp-trt3", one), "node[0].socket[0]");
    let switched = "{ model: roce-10gbe, count: 1, under: switches }";
    assert_eq!(above("supermicro-4029gp-trt", switched), "node[0].switch[3]");
    let slow = built("epyc-pcie-8x", switched.replace(", under: switches", "").as_str()).unwrap();
    assert_eq!(rate(&slow, "node[1].nic[0] -> fabric.leaf[0]"), 1.2e9);
    let errors = built("epyc-pcie-8x", "{ model: roce-10gbe, under: switches }").unwrap_err();
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert!(texts.iter().any(|text| text.contains("`count` of `nic` is missing")), "{texts:?}");
    assert!(texts.iter().any(|text| text.contains("write `under: sockets`")), "{texts:?}");
    // One cause gives one error.
    let unknown = built("epyc-pcie-8x", "{ model: roce-11gbe, count: 1 }").unwrap_err();
    assert_eq!(unknown.len(), 1, "{unknown:?}");
    let none = built("epyc-pcie-8x", "{ model: roce-10gbe, count: 0 }").unwrap_err();
    assert!(none[0].to_string().contains("write some, such as `set: {"), "{none:?}");
}

#[test]
fn a_slower_slot_slows_its_link_on_every_node_and_nothing_else() {
    let whole = machine("dgx-a100-80g", 2);
    let slowed = |set: &[(&str, &str)]| -> Vec<(String, f64)> {
        let machine = Machine::build(&CATALOGUE, &with(set)).unwrap();
        let factor = |link| machine.link(link).bytes_per_s / whole.link(link).bytes_per_s;
        let links = machine.links().map(|link| (machine.link_name(link), factor(link)));
        links.filter(|&(_, factor)| factor != 1.0).collect()
    };
    let lanes = "{ lanes: 8 }";
    let link = |node: u32| {
        [
            format!("node[{node}].gpu[3] -> node[{node}].switch[1]"),
            format!("node[{node}].switch[1] -> node[{node}].gpu[3]"),
        ]
    };
    let expected: Vec<(String, f64)> = [link(0), link(1)].concat().into_iter().map(|l| (l, 0.5)).collect();
    assert_eq!(slowed(&[("gpu[3]", lanes)]), expected);
    let older = "{ class: pcie3 }";
    let found = slowed(&[("switch", older), ("switch[2]", lanes)]);
    assert_eq!(found.len(), 2 * 2 * 4, "both directions of four uplinks on two nodes");
    let third = found.iter().find(|(name, _)| name == "node[0].switch[2] -> node[0].socket[1]").unwrap();
    assert_eq!(third.1, 6.0 / 26.1, "eight lanes of the class set for all");
    assert_eq!(slowed(&[("gpu[3]", "{ class: pcie4 }")]), []);
}

#[test]
fn changes_that_cannot_be_are_reported_at_once() {
    let spec = with(&[
        ("gpus", "{ memory: 40 GiB }"),
        ("gpu[8]", "{ class: pcie3 }"),
        ("carrier", "{ count: 1 }"),
        ("nic", "{ memory: 1 GiB, class: pci3 }"),
        ("nic[0]", "{ count: 1 }"),
        ("switch[0]", "{ class: nvlink3 }"),
        ("gpu", "{ memory: 0.5 GiB, rate: 0 GB/s }"),
        ("memory[1]", "{ memory: 0 GiB }"),
    ]);
    assert_eq!(
        errors(&spec),
        [
            "the node has no part `gpus` to set: did you mean `gpu`?",
            "the node has no part `gpu[8]` to set: did you mean `gpu[0]`?",
            "the node has no part `carrier` to set: its parts are `gpu`, `nic`, `ssd`, `switch`, `socket` and `memory`, or a \
             single one such as `gpu[0]`",
            "`nic` has no `memory` to set: a nic has `model`, `count`, `under`, `class` and `lanes`",
            "the catalogue has no PCIe class `pci3`: did you mean `pcie3`?",
            "`count` is the same for every nic, also for `nic[0]`: set that of `nic`",
            "the catalogue has no PCIe class `nvlink3`: the PCIe classes here are `pcie3`, `pcie3-dgx-1p`, `pcie4`, `pcie4-writes-first` and `pcie5`",
            "`memory` of `gpu` is too small: write more than the 1.25 GiB that driver and context keep",
            "`rate` of `gpu` is no rate of a memory: write one up to 1,000,000 GB/s",
            "`memory` of `memory[1]` is nothing: write a size",
        ]
    );
    assert!(
        errors(&with(&[("nic", "{ model: connectx-9 }")]))[0]
            .starts_with("the catalogue has no nic `connectx-9`")
    );
    let on = |node: &str, part: &str, change: &str| {
        errors(&Cluster { set: with(&[(part, change)]).set, ..cluster(node, 1) })
    };
    assert_eq!(
        on("epyc-pcie-8x", "nic", "{ count: 2 }"),
        [
            "`model` of `nic` is missing: the node has no network interfaces of its own, so write a name of `foretrain list nics`"
        ]
    );
    assert_eq!(
        on("epyc-pcie-8x", "gpu", "{ nvlinks: 4 }"),
        ["`nvlinks` of `gpu` joins nothing: the node wires no NVLinks"]
    );
    assert_eq!(
        on("epyc-pcie-8x", "socket[1]", "{ cores: 32 }"),
        [
            "`cores` of `socket[1]` needs `power` beside it: the catalogue does not say which processors the node has"
        ]
    );
    assert!(on("dgx-a100-80g", "ssd", "{ count: 4096 }")[0].contains("more than the 4096"));
    assert_eq!(on("mainframe", "gpus", "{ memory: 1 GiB }").len(), 2);
}
