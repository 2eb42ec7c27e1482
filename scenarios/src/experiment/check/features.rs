//! Rules of the features of a graph network: places that the machine has, and ways that lead there.

use hw_models::machine::{Machine, PartKind, RouteKind};
use hw_models::reads::Sockets;
use workloads::feed::{Access, Cache, Features, Home, MpsShares, Process, RowsOnDrives};

use super::Check;
use crate::plans;
use crate::schema::{GraphNetwork, Scenario, Share};

const FEATURES: &str = "features";
const HOME: &str = "features.home";
const ACCESS: &str = "features.access";
const SOCKET: &str = "features.socket";
const PROCESS: &str = "features.process";
const COPIES: &str = "parallelism.data";

/// Bytes that drives count in.
const SECTOR: u64 = 512;
/// Largest page of drives.
const PAGE_MAX: u64 = 1 << 30;

impl Check<'_> {
    /// Features that go with what is trained, and with each other.
    pub(super) fn features(&mut self, scenario: &Scenario, settings: &GraphNetwork) {
        let Some(features) = &scenario.features else { return };
        if settings.sampling.is_none() {
            let plain = Features { width: features.width, dtype: features.dtype, ..Features::default() };
            if *features != plain {
                self.report_with(
                    FEATURES,
                    &[FEATURES],
                    "features of the whole graph are on the GPU throughout: nothing is gathered",
                    "add `model.graph.sampling: { batch: 1000, fan_out: [10, 10] }`, or keep `width` and `dtype` alone",
                );
            }
            return;
        }
        self.ways_of(features);
        self.caches_of(features);
        if let Ok(machine) = plans::machine::of(scenario) {
            let ranks = plans::ranks(scenario) as u32;
            self.home_of(features, &machine, ranks);
        }
    }

    /// Reports a way that does not lead from the home of features.
    fn ways_of(&mut self, features: &Features) {
        let mut wrong = |path: &str, message: &str, help: &str| {
            self.report_with(path, &[FEATURES], message, help);
        };
        match (features.home, features.access) {
            (_, Access::HostGather) => {}
            (Home::Gpu, _) => wrong(
                ACCESS,
                "features in the memory of the GPU are not read over a link",
                "remove `access`, or write `home: host-pinned`",
            ),
            (Home::Striped | Home::Sharded, _) => wrong(
                ACCESS,
                "features in memories of GPUs are read by the GPUs alone",
                "remove `access`, or write `home: host-pinned`",
            ),
            (Home::Drives, Access::ZeroCopy | Access::Managed) => wrong(
                ACCESS,
                "drives are read in pages, by threads of the host or of the GPU",
                "write `access: host-gather` or `access: gpu-direct`",
            ),
            (Home::HostPinned | Home::Host, Access::GpuDirect) => wrong(
                ACCESS,
                "threads of the GPU queue requests at drives, and the features are not there",
                "write `home: drives`, or `access: zero-copy`",
            ),
            (Home::Host, Access::ZeroCopy) => {
                wrong(HOME, "a GPU reads in place what is page-locked", "write `home: host-pinned`");
            }
            _ => {}
        }
        let by_gpu = matches!(features.access, Access::ZeroCopy | Access::GpuDirect);
        let on_host = matches!(features.home, Home::HostPinned | Home::Host);
        if features.socket != Sockets::Each && (!on_host || features.access == Access::Managed) {
            wrong(
                SOCKET,
                "a socket holds rows of the host alone, and the driver places managed pages itself",
                "remove `socket`, or write `home: host-pinned` with `host-gather` or `zero-copy`",
            );
        }
        if features.drives.is_some() && features.home != Home::Drives {
            wrong("features.drives", "no features are on drives", "remove `drives`, or write `home: drives`");
        }
        if features.process != Process::Same && !by_gpu {
            let message = "no kernel of another process reads rows that the host gathers or that pages bring";
            let help = "write `access: zero-copy`, or remove `process`";
            self.report_with(PROCESS, &[FEATURES], message, help);
        }
        if let Process::Mps(shares) = features.process {
            self.shares(shares);
        }
        let page = features.drives.as_ref().map(RowsOnDrives::page);
        if let Some(page) = page.filter(|page| !page.is_multiple_of(SECTOR) || !(1..=PAGE_MAX).contains(page))
        {
            let message = format!("drives read whole sectors of {SECTOR} bytes, at most 1 GiB, not {page} B");
            let help = "write for example `page: 4 KiB`";
            self.report(&[("features.drives.page", String::new())], message, help);
        }
    }

    /// Reports shares that leave a process nothing, or that are more than there is.
    fn shares(&mut self, MpsShares { reading, training }: MpsShares) {
        let help = "write for example `mps: { reading: 10 %, training: 90 % }`";
        let both = reading.as_f64() + training.map_or(0.0, Share::as_f64);
        let message = if reading.is_zero() || training.is_some_and(Share::is_zero) {
            "a share of 0 % leaves a process nothing".to_owned()
        } else if training.is_none() && reading.as_f64() >= 1.0 {
            format!("a share of {reading} leaves the process that trains nothing")
        } else if both > 1.0 {
            format!("shares of {reading} and {} are more than 100 % together", training.unwrap_or(reading))
        } else {
            return;
        };
        self.report(&[(PROCESS, String::new())], message, help);
    }

    /// Reports caches without a size, of more than all rows, or of rows that are there anyway.
    fn caches_of(&mut self, features: &Features) {
        if features.home == Home::Gpu && features.cache.is_some() {
            let message = "a cache of features that are all on the GPU changes nothing";
            let help = "remove it, or write `home: host-pinned`";
            self.report_with("features.cache", &[FEATURES], message, help);
        }
        let of_host = features.drives.as_ref().and_then(|drives| drives.cache);
        for (path, cache) in [("features.cache", features.cache), ("features.drives.cache", of_host)] {
            let Some(Cache { share, size, hits, .. }) = cache else { continue };
            if let Some(hits) = hits.filter(|hits| hits.as_f64() > 1.0) {
                let message = format!("a cache has at most all rows of a batch, not {hits}");
                let help = "write `100 %` or less, or remove it: hits follow from the graph";
                self.report(&[(&format!("{path}.hits"), String::new())], message, help);
            }
            match (share, size) {
                (Some(share), None) if share.as_f64() > 1.0 => {
                    let message = format!("a cache keeps at most all rows, not {share}");
                    let help = "write `100 %` or less";
                    self.report(&[(&format!("{path}.share"), String::new())], message, help);
                }
                (Some(_), None) | (None, Some(_)) => {}
                _ => {
                    let message = "a cache has a `share` of the rows or a `size`";
                    self.report_with(
                        path,
                        &[FEATURES],
                        message,
                        "write for example `cache: { share: 20 % }`",
                    );
                }
            }
        }
    }

    /// Reports sockets that hosts do not have, and GPUs that are too few or do not reach each
    /// other.
    fn home_of(&mut self, features: &Features, machine: &Machine, ranks: u32) {
        let sockets = machine.memories_of_node(0).count();
        match features.socket {
            Sockets::One(number) if number as usize >= sockets => {
                let message = format!("a node has {sockets} sockets with memory, and no number {number}");
                let help = format!("write 0 to {}, `interleaved`, or `each`", sockets.saturating_sub(1));
                self.report_with(SOCKET, &["machine"], message, help);
            }
            Sockets::Interleaved if sockets < 2 => {
                let message = "interleaving on the only socket of a node changes nothing";
                self.report_with(SOCKET, &["machine"], message, "remove `socket`");
            }
            _ => {}
        }
        let per_node = machine.gpus_per_node();
        let about = ["machine", COPIES];
        match features.home {
            Home::Striped if ranks.min(per_node) < 2 => {
                let message = "striping over the only GPU of a node changes nothing";
                let help = "write `home: gpu`, or give each node more GPUs with `parallelism.data`";
                self.report_with(HOME, &about, message, help);
            }
            Home::Striped => {
                let gpu = |number| machine.gpu(number);
                let reached = |other: u32| {
                    let kind = machine.route(gpu(other), gpu(0)).map(|route| route.kind);
                    matches!(kind, Ok(RouteKind::NvLink | RouteKind::Peer))
                };
                if !(1..ranks.min(per_node)).all(reached) {
                    let message = "GPUs of a node reach each other by way of host memory, which threads of a GPU cannot read through";
                    let help = "write `home: host-pinned`, or take GPUs with peer-to-peer access";
                    self.report_with(HOME, &["machine"], message, help);
                }
            }
            Home::Drives if features.access == Access::GpuDirect => {
                let Some(drive) = machine.drives_of_node(0).next() else { return };
                let Ok(route) = machine.route(drive, machine.gpu(0)) else { return };
                let is_memory = |link| machine.part(machine.link(link).to).kind == PartKind::Memory;
                if route.links.into_iter().any(is_memory) {
                    let message = "drives do not write to a GPU without peer-to-peer access";
                    let help = "write `access: host-gather`, or take GPUs of data centres";
                    self.report_with(ACCESS, &["machine"], message, help);
                }
            }
            Home::Sharded if ranks <= per_node => {
                let message = "all GPUs are on one node: features sharded over nodes need several";
                let help = "write `home: striped`, or more nodes with `machine: { cluster: { count: 2 } }`";
                self.report_with(HOME, &about, message, help);
            }
            _ => {}
        }
    }
}
