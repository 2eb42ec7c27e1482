//! Fluid sharing: the rates of all activities ("flows") that are under way on the fluids of a platform.
//!
//! # The condition
//! Every flow runs at its cap, or crosses a saturated fluid on which no flow has a larger share relative to
//! its weight (bottleneck max fairness: Bonald and Roberts, SIGMETRICS 2014). The share of flow i on fluid r
//! is `a x`: coefficient times rate; its weight is `v`; it loads r with `m a x`, where `m` is the
//! multiplicity of a folded demand. With all `a`, `v` and `m` one this is max-min fairness (Bertsekas and
//! Gallager, Data Networks, section 6.5.2).
//!
//! # Exact levels
//! A flow is *uniform* when `k = v / a` is the same for all its demands. Then one integer, its level λ (2^-40
//! unit/ps per unit of weight), fixes its share everywhere, and everything is defined by integers, with w = m
//! v:
//!
//! - the level of a fluid is the least one that overflows it:  L_r = min { λ : Σ_i w_ir min(λ_i, λ) > C_r };
//! - the level of a flow is the lowest of its ceiling, the least level above its cap, and its fluids':
//!   λ_i = min(c_i, min_r L_r);
//! - a flow runs just below its level: x_i = min(cap_i, ⌊(λ_i - 1) k_i⌋).
//!
//! **Theorem.** These equations have exactly one solution. *Proof.* Let λ be the lowest of c_i over flows and
//! of ⌊(C_r - Σ fixed) / Σ free⌋ + 1 over fluids, no flow being fixed at first. No solution has a level below
//! λ, as no fluid overflows below it; the fluids that attain it overflow at λ, so their flows are at λ in
//! every solution. Fix them and go on. Fixing a flow at λ changes no Σ w min(λ_i, λ), so the order among
//! equals does not matter, and the levels of all other fluids are above λ.
//!
//! *Corollaries.* The rates do not depend on the order of insertion, on history or on the algorithm: the
//! reference of the tests (`tests/integration/sharing/reference.rs`), which is the proof as a program, and the
//! incremental sweep (`sweep`) give the same bits. No fluid carries more than its capacity, as it does not
//! overflow at L_r - 1; a saturated one lacks less than one quantum (2^-40 unit/ps) per unit of weight. A
//! solution is right everywhere if it is right on every fluid whose flows or capacity changed, which is what
//! makes it incremental.
//!
//! # Flows that nothing hinders
//! While the flows of a fluid, all at their ceilings, fit into its capacity, the fluid is *idle*: it overflows
//! nowhere. A flow on idle fluids alone runs at its cap, whatever the others do, and slows nobody. It is in no
//! sum or list of a tier, starts and ends without a solver, and is no part of a component, until one of its
//! fluids is idle no longer: then it is found by its route, of which a fluid knows all that cross it.
//!
//! # Flows that are not uniform
//! Where `k` differs along a flow, or a port divides weights, levels of different fluids cannot be compared
//! and the condition may have several solutions; the dynamic component is then solved from scratch by a
//! symmetric fixed point (`fixed_point`), so that its rates are a function of its flows alone.
//!
//! # Prior demands
//! A fluid has two *tiers*. Prior demands share its whole capacity as if no others were there; ordinary ones
//! share the rest. Where flows on the rest cross other fluids too, the rest may depend on itself: such a
//! fluid is a *hinge*, and its component is the fixed point's. All other rests are shared last, when the
//! prior demands have their rates.

mod arena;
mod component;
mod fixed_point;
mod memo;
mod network;
mod path;
mod regions;
mod sweep;
mod terms;
mod tier;
mod turns;
mod validate;

pub use network::{FlowId, Network};
pub use terms::cap_load;
pub use validate::validate;
