//! Which GPU of the catalogue one is that its driver names.

/// Names as the driver gives them (NVIDIA, "Supported NVIDIA GPU Products" of the driver's README), and the
/// entry of `gpus.yaml`.
const NAMES: [(&str, &str); 28] = [
    ("NVIDIA B200", "b200-sxm-180gb"),
    ("NVIDIA H200", "h200-sxm5-141gb"),
    ("NVIDIA H100 80GB HBM3", "h100-sxm5-80gb"),
    ("NVIDIA H100 SXM5 96GB", "h100-sxm5-96gb-500w"),
    ("NVIDIA H100 PCIe", "h100-pcie-80gb"),
    ("NVIDIA A100-SXM4-80GB", "a100-sxm4-80gb"),
    ("NVIDIA A100-SXM4-40GB", "a100-sxm4-40gb"),
    ("NVIDIA A100 80GB PCIe", "a100-pcie-80gb"),
    ("NVIDIA A100-PCIE-40GB", "a100-pcie-40gb"),
    // Boards of a cloud and of the DGX Station, by their memory and their rates.
    ("NVIDIA A100-PG509-200", "a100-sxm4-40gb"),
    ("Tesla V100-DGXS-32GB", "v100-sxm2-32gb"),
    ("NVIDIA A40", "a40"),
    ("NVIDIA L4", "l4"),
    ("NVIDIA GeForce RTX 3090", "rtx-3090"),
    ("NVIDIA GeForce RTX 3070", "rtx-3070"),
    ("Tesla T4", "t4"),
    ("NVIDIA T4", "t4"),
    ("NVIDIA TITAN RTX", "titan-rtx"),
    ("TITAN RTX", "titan-rtx"),
    ("NVIDIA GeForce RTX 2080 Ti", "rtx-2080-ti"),
    ("Tesla V100-SXM3-32GB", "v100-sxm3-32gb"),
    ("Tesla V100-SXM2-32GB", "v100-sxm2-32gb"),
    ("Tesla V100-SXM2-16GB", "v100-sxm2-16gb"),
    ("Tesla V100-PCIE-32GB", "v100-pcie-32gb"),
    ("Tesla V100-PCIE-16GB", "v100-pcie-16gb"),
    ("Tesla P100-SXM2-16GB", "p100-sxm2-16gb"),
    ("Tesla P100-PCIE-16GB", "p100-pcie-16gb"),
    ("NVIDIA TITAN Xp", "titan-xp"),
];

/// The entry of the catalogue for a GPU that its driver names so, if it is a known one.
pub fn in_catalogue(name: &str) -> Option<&'static str> {
    NAMES.iter().find(|(known, _)| *known == name).map(|&(_, entry)| entry)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::GPUS;

    #[test]
    fn every_name_is_of_an_entry() {
        for (name, entry) in NAMES {
            assert!(
                GPUS.contains(&format!("\n{entry}:\n")) || GPUS.starts_with(&format!("{entry}:\n")),
                "{entry}"
            );
            assert_eq!(in_catalogue(name), Some(entry));
        }
        assert_eq!(in_catalogue("NVIDIA H300"), None);
    }
}
