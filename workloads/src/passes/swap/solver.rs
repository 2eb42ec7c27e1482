//! The solver of swap programs, with a limit of nodes of its tree: its solution depends on the program alone, never on how fast
//! the machine is or what else runs on it.

#[cfg(feature = "highs")]
pub(super) use good_lp::highs as solver;
#[cfg(not(feature = "highs"))]
pub(super) use good_lp::microlp as solver;

/// When a solver stops.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Limits {
    /// No other solution can be better by more than this part.
    pub(super) gap: f64,
    /// Nodes of its tree, each a program without whole numbers.
    pub(super) nodes: u32,
}

/// A solution of a program.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Optimum {
    /// The values of its variables, in the order in which they were added.
    pub(super) values: Vec<f64>,
    /// True if no other is better by more than the gap; false if the solver stopped at its limit of nodes.
    pub(super) proven: bool,
}

/// Solves a program within `limits`. `None` where it has no solution, or none was found within them.
#[cfg(not(feature = "highs"))]
#[expect(clippy::needless_pass_by_value, reason = "HiGHS consumes its model")]
pub(super) fn optimum(
    model: good_lp::solvers::microlp::MicroLpProblem,
    _variables: &[good_lp::Variable],
    limits: Limits,
) -> Option<Optimum> {
    use microlp::{SolveOptions, TerminationReason};

    let mut options = SolveOptions::default();
    (options.mip_gap, options.node_limit) = (limits.gap, Some(limits.nodes.into()));
    let solution = model.as_inner().solve_with(options).ok()?.into_solution().ok()?;
    let proven = solution.termination_reason() != TerminationReason::NodeLimit;
    Some(Optimum { values: solution.iter().map(|(_, value)| value).collect(), proven })
}

/// Solves a program within `limits`. `None` where it has no solution, or none was found within them.
#[cfg(feature = "highs")]
pub(super) fn optimum(
    model: good_lp::solvers::highs::HighsProblem,
    variables: &[good_lp::Variable],
    limits: Limits,
) -> Option<Optimum> {
    use good_lp::{Solution, SolutionStatus, SolverModel};

    let model = model.set_option("mip_rel_gap", limits.gap).set_option("mip_max_nodes", limits.nodes as i32);
    let solution = model.solve().ok()?;
    let proven = !matches!(solution.status(), SolutionStatus::TimeLimit);
    Some(Optimum { values: variables.iter().map(|&variable| solution.value(variable)).collect(), proven })
}

#[cfg(test)]
mod tests {
    use good_lp::{Expression, ProblemVariables, SolverModel, Variable, constraint, variable};

    use super::*;

    /// Things of odd weights that are to fill half of a sack: no sum of them does, which a tree without end would have to find.
    fn sack(things: u32, nodes: u32) -> Option<Optimum> {
        let mut variables = ProblemVariables::new();
        let all: Vec<Variable> = (0..things).map(|_| variables.add(variable().binary())).collect();
        let weight = |number: u32| f64::from(2 * (number * 7919 % 1000) + 1001);
        let sum: Expression = (0..).zip(&all).map(|(number, &thing)| weight(number) * thing).sum();
        let half = (0..things).map(weight).sum::<f64>().div_euclid(4.0) * 2.0 + 1.0;
        let mut model = variables.minimise(-sum.clone()).using(solver);
        model.add_constraint(constraint!(sum <= half));
        optimum(model, &all, Limits { gap: 0.0, nodes })
    }

    #[test]
    fn a_solver_stops_after_so_many_nodes_and_says_so() {
        let small = sack(8, 10_000).expect("an empty sack is a solution");
        assert!(small.proven);
        let stopped = sack(40, 200).expect("an empty sack is a solution");
        assert!(!stopped.proven);
        assert_eq!(sack(40, 200), Some(stopped), "as often as it is asked");
    }
}
