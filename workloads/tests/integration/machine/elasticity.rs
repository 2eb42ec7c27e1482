//! What the published steps of 22B and 175B hang on: per cent of the step for one per cent of each constant, from runs with
//! 10 % more and 10 % less. A constant is scaled wherever the catalogue has it.

use hw_models::collectives::LogTable;
use workloads::passes::recompute::Mode;

use super::World;
use super::memory::published;

type Scale = fn(&mut World, f64);

const CONSTANTS: [(&str, Scale); 9] = [
    ("matrix products, share of the peak", |world, factor| {
        let generations =
            world.kernels.generations.values_mut().flat_map(|kernels| kernels.gemm.values_mut());
        let devices = world.kernels.devices.values_mut().flat_map(|kernels| kernels.gemm.values_mut());
        for gemm in generations.chain(devices) {
            gemm.e_max *= factor;
            gemm.sustained *= factor;
        }
    }),
    ("matrix products, memory time not hidden", |world, factor| {
        let generations =
            world.kernels.generations.values_mut().flat_map(|kernels| kernels.gemm.values_mut());
        let devices = world.kernels.devices.values_mut().flat_map(|kernels| kernels.gemm.values_mut());
        generations.chain(devices).for_each(|gemm| gemm.serial *= factor);
    }),
    ("streaming kernels, share of HBM", |world, factor| {
        let generations =
            world.kernels.generations.values_mut().flat_map(|kernels| kernels.stream.values_mut());
        let devices = world.kernels.devices.values_mut().flat_map(|kernels| kernels.stream.values_mut());
        generations.chain(devices).for_each(|stream| stream.achieved *= factor);
    }),
    ("start of kernels", |world, factor| {
        for kernels in world.kernels.generations.values_mut() {
            kernels.gemm.values_mut().for_each(|gemm| gemm.start_us *= factor);
            kernels.stream.values_mut().for_each(|stream| stream.start_us *= factor);
        }
        for kernels in world.kernels.devices.values_mut() {
            kernels.gemm.values_mut().for_each(|gemm| gemm.start_us *= factor);
            kernels.stream.values_mut().for_each(|stream| stream.start_us *= factor);
        }
    }),
    ("HBM bandwidth", |world, factor| {
        world.catalogue.gpus.values_mut().for_each(|gpu| gpu.bandwidth_gb_per_s *= factor);
    }),
    ("NVLink bandwidth", |world, factor| {
        world.catalogue.links.values_mut().for_each(|link| link.effective_gb_per_s *= factor);
    }),
    ("measured times of collectives", |world, factor| {
        for table in &mut world.collectives.tables {
            let longer = |&[bytes, us]: &[f64; 2]| [bytes, us * factor];
            table.points = LogTable::from(table.points.points().iter().map(longer).collect::<Vec<_>>());
        }
    }),
    ("latencies of other collectives and messages", |world, factor| {
        let tuner = &mut world.collectives.tuner;
        for by in [&mut tuner.base_us, &mut tuner.nvlink_us, &mut tuner.pcie_us, &mut tuner.net_us] {
            for protocols in [&mut by.ring, &mut by.tree] {
                protocols.ll *= factor;
                protocols.ll128 *= factor;
                protocols.simple *= factor;
            }
        }
        let paths = &mut world.collectives.point_to_point;
        for path in [&mut paths.nv_link, &mut paths.pcie, &mut paths.network] {
            path.latency_us *= factor;
        }
    }),
    ("network bandwidth", |world, factor| {
        for nic in world.catalogue.nics.values_mut() {
            nic.rate_gbit_per_s *= factor;
            nic.effective_gb_per_s *= factor;
        }
        world.catalogue.fabrics.values_mut().for_each(|fabric| fabric.port_gbit_per_s *= factor);
    }),
];

#[test]
fn steps_hang_on_these_constants() {
    let rows = [
        ("22B full", published("22B", false, Mode::Full)),
        ("22B selective, SP", published("22B", true, Mode::Selective)),
        ("175B full", published("175B", false, Mode::Full)),
        ("175B selective, SP", published("175B", true, Mode::Selective)),
    ];
    let names: String = rows.iter().map(|(name, _)| format!("{name:>20}")).collect();
    let mut table = format!("{:<44}{names}\n", "");
    for (constant, scale) in CONSTANTS {
        let elasticity = |(world, plan): &(World, _)| {
            let seconds = |factor| {
                let mut world = world.clone();
                scale(&mut world, factor);
                world.completed(plan).seconds()
            };
            let (more, less): (f64, f64) = (1.1, 0.9);
            let elasticity: f64 = (seconds(more) / seconds(less)).ln() / (more / less).ln();
            // Without the sign of what rounds to nothing.
            (100.0 * elasticity).round() / 100.0 + 0.0
        };
        let row: String = rows.iter().map(|(_, row)| format!("{:>20.2}", elasticity(row))).collect();
        table += &format!("{constant:<44}{row}\n");
    }
    insta::assert_snapshot!(table);
}
